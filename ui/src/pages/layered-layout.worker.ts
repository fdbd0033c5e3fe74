/** `layered`, beside the page. */
import { layered } from "./layered-layout";

export interface LayeredRequest {
  count: number;
  sources: Int32Array;
  targets: Int32Array;
}

self.onmessage = (message: MessageEvent<LayeredRequest>) => {
  const { count, sources, targets } = message.data;
  const layout = layered(count, sources, targets);
  self.postMessage(layout, { transfer: [layout.x.buffer, layout.y.buffer] });
};
