// Public API of the package: types and test helpers for handlers. It contains no server code.
export {
  defineFunction,
  type Claims,
  type Context,
  type FunctionEvent,
  type Handler,
  type HeaderValue,
  type Request,
  type Response,
} from './handler.ts';
export { testFunction, type TestCall } from './test-function.ts';
