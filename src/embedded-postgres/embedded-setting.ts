/** Setting of a development server, by which a session recognises it. */
export const EMBEDDED_SETTING = 'svc.embedded';
