// How a route of the dashboard's API is declared, and who may ask for it.
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { DashboardContext } from '../dashboard-context.ts';

/** `read` is for whoever is signed in, `write` besides only where the dashboard may change things. */
export type Access = 'public' | 'read' | 'write';

/** What it returns is the answer as JSON; nothing is a 204. A handler may send its answer itself and return the reply. */
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
    /** `read` when absent. */
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
