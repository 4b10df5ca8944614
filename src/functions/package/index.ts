// What a project imports from the package: types for its handlers, and what tests them. Nothing of the server.
export {
  defineFunction,
  type Claims,
  type Context,
  type Handler,
  type HeaderValue,
  type Request,
  type Response,
} from './handler.ts';
export { testFunction, type TestCall } from './test-function.ts';
