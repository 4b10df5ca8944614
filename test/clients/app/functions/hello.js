export default async function (req, ctx) {
  return { body: { hello: req.body?.name ?? 'nobody', user: ctx.claims?.email ?? null } };
}
