// A code function: declare it under `functions:` in svc.yaml, then POST /functions/v1/hello {"name": "Ada"}.
export default async function hello(req, ctx) {
  ctx.log.info('hello was called', { signedIn: ctx.claims !== null });
  return { status: 200, body: { message: `Hello ${req.body?.name ?? 'world'}` } };
}
