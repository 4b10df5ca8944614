import { createHmac, timingSafeEqual } from 'node:crypto';
import { defineFunction } from 'svcyaml';

/** Authenticates a service by its signature over the exact bytes of the body. */
export default defineFunction<'PAYMENT_SECRET'>((req, ctx) => {
  const expected = createHmac('sha256', ctx.env.PAYMENT_SECRET).update(req.rawBody).digest();
  const given = Buffer.from(req.headers['x-signature'] ?? '', 'hex');
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return { status: 401 };
  ctx.log.info('paid', req.body);
  return { status: 204 };
});
