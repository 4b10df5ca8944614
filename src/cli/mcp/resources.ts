// Resources that an assistant can read without a tool: the file, the types and the documentation.
import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { pageNames } from '../docs/documentation.ts';
import { readPageNamed } from './documentation-tools.ts';

type Read = {
  /** Returns the text with references to variables instead of their values. */
  readonly config: () => Promise<string>;
  /** Returns the types for `createClient<Database>()`. */
  readonly types: () => Promise<string>;
};

const PAGES = 'svc://docs/';

export function provideResources(server: McpServer, { config, types }: Read): void {
  const text = (
    name: string,
    uri: string,
    mimeType: string,
    description: string,
    read: () => Promise<string>,
  ) =>
    server.registerResource(name, uri, { description, mimeType }, async () => ({
      contents: [{ uri, mimeType, text: await read() }],
    }));
  text('svc.yaml', 'svc://config', 'application/yaml', 'The configuration of the project', config);
  text('types', 'svc://types', 'text/x-typescript', 'Tables, views and SQL functions as TypeScript', types);
  const list = () => ({
    resources: pageNames().map((page) => ({ uri: `${PAGES}${page}`, name: page, mimeType: 'text/markdown' })),
  });
  const template = new ResourceTemplate(`${PAGES}{+page}`, { list });
  const about = { description: 'A page of the documentation', mimeType: 'text/markdown' };
  server.registerResource('documentation', template, about, ({ href }) => ({
    contents: [{ uri: href, mimeType: 'text/markdown', text: readPageNamed(href.slice(PAGES.length)) }],
  }));
}
