// Virtual grid of the rows of a table: only visible rows are rendered and requested. One cell is active. The arrow
// keys move it, even while its row is scrolled out of view.
import { VisuallyHidden } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconKey } from '@tabler/icons-react';
import { useQueries, useQueryClient } from '@tanstack/react-query';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import {
  memo,
  useEffect,
  useMemo,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type Ref,
} from 'react';
import type { ColumnInfo } from '../../../../src/dashboard-api/contract.ts';
import { notifyDone } from '../../parts/notify.ts';
import { Failure } from '../../parts/states.tsx';
import { valueKind, toText } from '../../parts/values.ts';
import { CellEditor } from './cell-editor.tsx';
import { SELECTOR_WIDTH, isMono, isOrderable, isWritable, columnWidth } from './columns.ts';
import classes from './grid.module.css';
import { WINDOW, rowKey, readWindow, saveValue, type Row, type RowSource, type Sort } from './rows.ts';

const ROW_HEIGHT = 34;
/** Browsers cannot scroll beyond about 17 million pixels. */
export const MAX_SHOWN = 500_000;
const MAX_CELL_TEXT = 200;
const HEADER = -1;

type GridProps = {
  source: RowSource;
  /** Identifies the source. Rows of a different key are unrelated. */
  sourceKey: readonly unknown[];
  total: number;
  canEdit: boolean;
  /** Undefined disables selection. */
  selection: ReadonlyMap<string, Row> | undefined;
  onSelect: (key: string, row: Row | undefined) => void;
  onSort: (sort: Sort | undefined) => void;
};

type Place = { readonly row: number; readonly column: number };

export function RowGrid({ source, sourceKey, total, canEdit, selection, onSelect, onSort }: GridProps) {
  const { table, sort } = source;
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<Place>({ row: 0, column: 0 });
  const [editing, setEditing] = useState<Place>();
  const moved = useRef(false);
  const queries = useQueryClient();

  const shown = Math.min(total, MAX_SHOWN);
  const hasSelector = selection !== undefined;
  const firstColumn = hasSelector ? -1 : 0;
  const widths = useMemo(() => table.columns.map(columnWidth), [table.columns]);
  const width = widths.reduce((sum, width) => sum + width, hasSelector ? SELECTOR_WIDTH : 0);

  const virtualizer = useVirtualizer({
    count: shown,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
    // Keep rendering the active row when it is scrolled away, so that it does not lose focus.
    rangeExtractor: (range) => {
      const rows = defaultRangeExtractor(range);
      const { row } = active;
      return row < 0 || row >= shown || rows.includes(row) ? rows : [...rows, row].sort((a, b) => a - b);
    },
  });
  const items = virtualizer.getVirtualItems();
  const windows = [...new Set(items.map(({ index }) => Math.floor(index / WINDOW)))];
  const results = useQueries({
    queries: windows.map((window) => ({
      queryKey: [...sourceKey, 'window', window],
      queryFn: ({ signal }: { signal: AbortSignal }) => readWindow(source, window, signal),
      gcTime: 60_000,
    })),
  });
  const rowAt = (index: number): Row | undefined =>
    results[windows.indexOf(Math.floor(index / WINDOW))]?.data?.[index % WINDOW];
  const failed = results.find(({ isError }) => isError);

  useEffect(() => {
    if (!moved.current || editing) return;
    moved.current = false;
    const cell = scroll.current?.querySelector<HTMLElement>(`[data-cell="${active.row}:${active.column}"]`);
    cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [active, editing]);

  const go = (place: Place): void => {
    moved.current = true;
    setActive({
      row: Math.max(HEADER, Math.min(shown - 1, place.row)),
      column: Math.max(firstColumn, Math.min(table.columns.length - 1, place.column)),
    });
  };
  const isEditable = ({ row, column }: Place): boolean => {
    const target = table.columns[column];
    return canEdit && row >= 0 && target !== undefined && isWritable(target) && rowAt(row) !== undefined;
  };
  const edit = (place: Place): void => {
    if (!isEditable(place)) return;
    setActive(place);
    setEditing(place);
  };
  const stopEditing = (): void => {
    moved.current = true;
    setEditing(undefined);
  };
  const toggle = (index: number): void => {
    const row = rowAt(index);
    const key = row && rowKey(table, row);
    if (row && key !== undefined) onSelect(key, selection?.has(key) === true ? undefined : row);
  };

  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>): void => {
    // The editor is rendered outside the grid and handles its own keys.
    if (!(event.target instanceof Node) || !event.currentTarget.contains(event.target)) return;
    const { row, column } = active;
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const isFar = event.ctrlKey || event.metaKey;
    const targets: Partial<Record<string, Place>> = {
      ArrowDown: { row: isFar ? shown - 1 : row + 1, column },
      ArrowUp: { row: isFar ? 0 : row - 1, column },
      ArrowRight: { row, column: isFar ? table.columns.length - 1 : column + 1 },
      ArrowLeft: { row, column: isFar ? firstColumn : column - 1 },
      PageDown: { row: row + page, column },
      PageUp: { row: Math.max(0, row - page), column },
      Home: { row: isFar ? 0 : row, column: firstColumn },
      End: { row: isFar ? shown - 1 : row, column: table.columns.length - 1 },
    };
    const target = targets[event.key];
    if (target) {
      event.preventDefault();
      go(target);
      return;
    }
    if (row === HEADER) return;
    if (event.key === 'Enter' || event.key === 'F2') {
      event.preventDefault();
      if (column === -1) toggle(row);
      else edit(active);
    }
    if (event.key === ' ' && hasSelector) {
      event.preventDefault();
      toggle(row);
    }
    if (isFar && event.key === 'c' && column >= 0) {
      const name = table.columns[column]?.name ?? '';
      void navigator.clipboard.writeText(toText(rowAt(row)?.[name]) ?? '').then(() => notifyDone('Copied'));
    }
  };

  const save = async (place: Place, column: ColumnInfo, json: string): Promise<void> => {
    const row = rowAt(place.row);
    if (!row) return;
    const saved = await saveValue(source, row, column, json);
    const key = rowKey(table, row);
    const show = (now: Row): void => {
      queries.setQueriesData<Row[]>({ queryKey: [...sourceKey, 'window'] }, (rows) =>
        rows?.map((known) => (rowKey(table, known) === key ? now : known)),
      );
    };
    switch (saved.kind) {
      case 'saved':
        show(saved.row);
        stopEditing();
        return;
      case 'conflict':
        show(saved.row);
        throw new Error(
          `The value has changed to ${toText(saved.row[column.name]) ?? 'NULL'} since it was loaded. ` +
            'Nothing was written. Save again to overwrite it.',
        );
      case 'not-allowed':
        throw new Error(
          'No policy allows this caller to change this row. The page Policies shows which one rejects it.',
        );
      case 'gone':
        throw new Error('The row no longer exists, or it is hidden from this caller. Nothing was written.');
    }
  };

  const latest = useRef({ edit, toggle, save, stopEditing });
  latest.current = { edit, toggle, save, stopEditing };
  const acts = useMemo<GridActs>(
    () => ({
      activate: setActive,
      edit: (place) => latest.current.edit(place),
      toggle: (index) => latest.current.toggle(index),
      save: (place, column, json) => latest.current.save(place, column, json),
      stop: () => latest.current.stopEditing(),
    }),
    [],
  );

  return (
    <>
      {failed && <Failure error={failed.error} onRetry={() => void failed.refetch()} />}
      <div
        ref={scroll}
        role="grid"
        aria-label={`Rows of ${table.name}`}
        aria-rowcount={total + 1}
        aria-colcount={table.columns.length + (hasSelector ? 1 : 0)}
        aria-readonly={!canEdit}
        aria-multiselectable={hasSelector}
        className={classes['scroll']}
        data-empty={total === 0 || undefined}
        onKeyDown={onKeyDown}
      >
        <div role="rowgroup" className={classes['head']} style={{ minWidth: width }}>
          <div role="row" aria-rowindex={1} className={classes['row']}>
            {hasSelector && (
              <div
                role="columnheader"
                aria-colindex={1}
                data-selector
                className={classes['headCell']}
                style={{ width: SELECTOR_WIDTH }}
              >
                <VisuallyHidden>Selected</VisuallyHidden>
              </div>
            )}
            {table.columns.map((column, index) => (
              <HeadCell
                key={column.name}
                column={column}
                isKey={table.primaryKey.includes(column.name)}
                width={widths[index] ?? 0}
                index={index}
                colIndex={index + (hasSelector ? 2 : 1)}
                isActive={active.row === HEADER && active.column === index}
                sort={sort?.column === column.name ? sort : undefined}
                onFocus={() => setActive({ row: HEADER, column: index })}
                onSort={onSort}
              />
            ))}
          </div>
        </div>
        <div
          role="rowgroup"
          className={classes['body']}
          style={{ height: virtualizer.getTotalSize(), minWidth: width }}
        >
          {items.map((item) => {
            const row = rowAt(item.index);
            const key = row && rowKey(table, row);
            return (
              <GridRow
                key={item.key}
                index={item.index}
                top={item.start}
                row={row}
                columns={table.columns}
                widths={widths}
                hasSelector={hasSelector}
                isSelected={key !== undefined && selection?.has(key) === true}
                label={key === undefined ? String(item.index + 1) : key.slice(1, -1).replaceAll('"', '')}
                activeColumn={active.row === item.index ? active.column : undefined}
                editingColumn={editing?.row === item.index ? editing.column : undefined}
                acts={acts}
              />
            );
          })}
        </div>
      </div>
    </>
  );
}

type HeadCellProps = {
  column: ColumnInfo;
  isKey: boolean;
  width: number;
  index: number;
  colIndex: number;
  isActive: boolean;
  sort: Sort | undefined;
  onFocus: () => void;
  onSort: (sort: Sort | undefined) => void;
};

/** Sorts ascending on the first click, descending on the second, not at all on the third. */
function HeadCell({ column, isKey, width, index, colIndex, isActive, sort, onFocus, onSort }: HeadCellProps) {
  const next = (): Sort | undefined => {
    if (!sort) return { column: column.name, descending: false };
    return sort.descending ? undefined : { column: column.name, descending: true };
  };
  const isSortable = isOrderable(column);
  return (
    <div
      role="columnheader"
      aria-colindex={colIndex}
      aria-sort={sort ? (sort.descending ? 'descending' : 'ascending') : 'none'}
      className={classes['headCell']}
      style={{ width }}
    >
      <button
        type="button"
        data-cell={`${HEADER}:${index}`}
        tabIndex={isActive ? 0 : -1}
        aria-disabled={!isSortable}
        title={column.comment ?? `${column.name}: ${column.type}`}
        onFocus={onFocus}
        onClick={() => {
          if (isSortable) onSort(next());
        }}
      >
        {isKey && <IconKey size={12} aria-label="primary key" />}
        <span className={classes['name']}>{column.name}</span>
        <span className={classes['type']}>{shortType(column.type)}</span>
        {sort && (sort.descending ? <IconArrowDown size={14} /> : <IconArrowUp size={14} />)}
      </button>
    </div>
  );
}

/** Returns the common short name of a type. */
export function shortType(type: string): string {
  return type
    .replace('timestamp with time zone', 'timestamptz')
    .replace('timestamp without time zone', 'timestamp')
    .replace('time without time zone', 'time')
    .replace('character varying', 'varchar')
    .replace('double precision', 'float8');
}

type GridRowProps = {
  index: number;
  top: number;
  row: Row | undefined;
  columns: readonly ColumnInfo[];
  widths: readonly number[];
  hasSelector: boolean;
  isSelected: boolean;
  label: string;
  activeColumn: number | undefined;
  editingColumn: number | undefined;
  /** Stable across renders, so that unchanged rows are not rendered again. */
  acts: GridActs;
};

type GridActs = {
  readonly activate: (place: Place) => void;
  readonly edit: (place: Place) => void;
  readonly toggle: (index: number) => void;
  readonly save: (place: Place, column: ColumnInfo, json: string) => Promise<void>;
  readonly stop: () => void;
};

const GridRow = memo(function GridRow({
  index,
  top,
  row,
  columns,
  widths,
  hasSelector,
  ...rest
}: GridRowProps) {
  const { isSelected, label, activeColumn, editingColumn, acts } = rest;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={hasSelector ? isSelected : undefined}
      className={classes['row']}
      style={{ transform: `translateY(${top}px)` }}
    >
      {hasSelector && (
        <div
          role="gridcell"
          aria-colindex={1}
          data-selector
          data-cell={`${index}:-1`}
          tabIndex={activeColumn === -1 ? 0 : -1}
          className={classes['cell']}
          style={{ width: SELECTOR_WIDTH }}
          onFocus={() => acts.activate({ row: index, column: -1 })}
        >
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Select row ${label}`}
            checked={isSelected}
            disabled={!row}
            onChange={() => acts.toggle(index)}
          />
        </div>
      )}
      {columns.map((column, at) => {
        const cell = (
          <Cell
            key={column.name}
            column={column}
            value={row ? row[column.name] : undefined}
            width={widths[at] ?? 0}
            place={`${index}:${at}`}
            colIndex={at + (hasSelector ? 2 : 1)}
            isActive={activeColumn === at}
            onFocus={() => acts.activate({ row: index, column: at })}
            onDoubleClick={() => acts.edit({ row: index, column: at })}
          />
        );
        return editingColumn === at && row ? (
          <CellEditor
            key={column.name}
            column={column}
            value={row[column.name]}
            onSave={(json) => acts.save({ row: index, column: at }, column, json)}
            onClose={acts.stop}
          >
            {cell}
          </CellEditor>
        ) : (
          cell
        );
      })}
    </div>
  );
});

type CellProps = {
  column: ColumnInfo;
  value: unknown;
  width: number;
  place: string;
  colIndex: number;
  isActive: boolean;
  onFocus: () => void;
  onDoubleClick: () => void;
  /** Set by the attached editor. */
  ref?: Ref<HTMLDivElement>;
  style?: CSSProperties;
};

function Cell({ column, value, width, place, colIndex, isActive, onFocus, onDoubleClick, ref }: CellProps) {
  const text = toText(value);
  return (
    <div
      ref={ref}
      role="gridcell"
      aria-colindex={colIndex}
      data-cell={place}
      data-mono={isMono(column) || undefined}
      data-align={valueKind(column) === 'number' ? 'right' : undefined}
      tabIndex={isActive ? 0 : -1}
      className={classes['cell']}
      style={{ width }}
      onFocus={onFocus}
      onDoubleClick={onDoubleClick}
    >
      {value === undefined ? (
        <div className={classes['waiting']} />
      ) : text === null ? (
        <span className={classes['null']}>NULL</span>
      ) : (
        <span>{text.slice(0, MAX_CELL_TEXT)}</span>
      )}
    </div>
  );
}
