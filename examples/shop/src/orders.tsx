// The user's orders and their state; staff sees all orders.
import { useEffect, useState, type JSX } from 'react';
import { money, supabase, type Order } from './client.ts';

export function Orders({
  isStaff,
  changes,
}: {
  readonly isStaff: boolean;
  readonly changes: number;
}): JSX.Element | null {
  const [orders, setOrders] = useState<readonly Order[]>([]);

  useEffect(() => {
    let isOld = false;
    void supabase
      .from('orders')
      .select('*, items:order_items(*)')
      .order('id', { ascending: false })
      .then(({ data }) => {
        if (data && !isOld) setOrders(data);
      });
    return () => {
      isOld = true;
    };
  }, [isStaff, changes]);

  if (orders.length === 0) return null;
  return (
    <section aria-label="Orders">
      <h2>{isStaff ? 'All orders' : 'My orders'}</h2>
      <ul>
        {orders.map(({ id, state, total, items }) => (
          <li key={id} className="order" aria-label={`Order ${id}`}>
            <p className="line">
              <strong>{id}</strong>
              <span className="name">{state}</span>
              <span>{money(total)}</span>
            </p>
            <p className="soft">{items.map(({ amount, name }) => `${amount} × ${name}`).join(', ')}</p>
            {isStaff && state === 'placed' && (
              <button
                type="button"
                onClick={() => void supabase.from('orders').update({ state: 'sent' }).eq('id', id).then()}
              >
                It is sent
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
