// Declares routes of the dashboard's API with the access that they require.
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { DashboardContext } from '../dashboard-context.ts';

/** `read` requires a session, `write` also the mode `readwrite`. */
export type Access = 'public' | 'read' | 'write';

/** Sends the returned value as JSON, or 204 for undefined. A handler that responds itself returns the reply. */
export type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown;

export type Route = readonly [
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  url: string,
  access: Access,
  handler: Handler,
  config?: FastifyContextConfig,
];

/** The routes of one page. */
export type DashboardRoutes = (context: DashboardContext, app: FastifyInstance) => readonly Route[];

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Defaults to `read`. */
    dashboard?: Access;
  }
}

export function addRoutes(app: FastifyInstance, routes: readonly Route[]): void {
  for (const [method, url, access, handler, config] of routes) {
    app.route({
      method,
      url,
      config: { ...config, dashboard: access },
      handler: async (request, reply) => {
        const answer = await handler(request, reply);
        return answer === undefined ? await reply.code(204).send() : answer;
      },
    });
  }
}
