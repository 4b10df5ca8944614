import { createHmac, timingSafeEqual } from 'node:crypto';
import { defineFunction } from 'svcyaml';

/** No user calls this, so the signature says who it is. It is made over the exact bytes. */
export default defineFunction<'PAYMENT_SECRET'>((req, ctx) => {
  const expected = createHmac('sha256', ctx.env.PAYMENT_SECRET).update(req.rawBody).digest();
  const given = Buffer.from(req.headers['x-signature'] ?? '', 'hex');
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return { status: 401 };
  ctx.log.info('paid', req.body);
  return { status: 204 };
});
