// OpenAPI description of `/functions/v1`. Functions define their bodies themselves.
import type { Config } from '../config/config.ts';
import { type ApiDescription, named, object, type Operation, text } from '../lib/openapi.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

export function describeFunctions({ functions }: Pick<Config, 'functions'>): ApiDescription {
  return {
    tag: 'functions',
    about: 'Code functions. Each takes every method, and paths below its own',
    operations: Object.fromEntries(
      functions
        .filter(({ http }) => http)
        .flatMap(({ name, authRequired }) =>
          METHODS.map((method): [string, Operation] => [
            `${method} /${name}`,
            {
              summary: name,
              access: authRequired ? 'user' : 'none',
              ...(method === 'GET' ? {} : { body: { media: { '*/*': {} } } }),
              answers: { 200: 'Response of the function' },
            },
          ]),
        ),
    ),
    schemas: { 'functions.Error': object({ code: text, message: text, 'details?': {}, 'hint?': {} }) },
    error: named('functions.Error'),
  };
}
