// OpenAPI description of the HTTP endpoints of `/realtime/v1`. OpenAPI cannot describe the frames of the socket.
import { type ApiDescription, flag, arraySchema, named, object, text } from '../../lib/openapi.ts';

export const REALTIME_DESCRIPTION: ApiDescription = {
  tag: 'realtime',
  about: 'Broadcasts without a socket. The socket is /realtime/v1/websocket',
  operations: {
    'POST /api/broadcast': {
      summary: 'Send messages to channels',
      access: 'key',
      body: object({
        messages: arraySchema(object({ topic: text, event: text, payload: {}, 'private?': flag })),
      }),
      answers: { 202: 'Sent' },
    },
    'POST /api/broadcast/{topic}/events/{event}': {
      summary: 'Send one message to a channel',
      access: 'key',
      query: { private: flag },
      body: {
        media: { 'application/json': {}, 'application/octet-stream': { type: 'string', format: 'binary' } },
      },
      answers: { 202: 'Sent' },
    },
  },
  schemas: {
    'realtime.Error': object({
      error: text,
      message: text,
      code: text,
      'details?': {},
      'hint?': text,
      'errors?': {},
    }),
  },
  error: named('realtime.Error'),
};
