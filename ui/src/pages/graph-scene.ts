/** The part of a graph that is in sight on a canvas, and how it moves. */
import { fit, LARGEST_SCALE, type Marks, nodeAt, type Painter, type Sight, SMALLEST_SCALE } from "./graph-painter";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layered-layout";

const AT_REST_MS = 120;
const READABLE_SCALE = 0.8;
/** So far the pointer may move in a click. */
const CLICK_PX = 4;

export class GraphScene {
  private sight: Sight = { x: 0, y: 0, scale: 0 };
  private marks: Marks = { selected: -1, hovered: -1, found: null };
  private painter: Painter | null = null;
  private layout: Layout | null = null;
  private width = 0;
  private height = 0;
  /** What to bring into sight when the size of the canvas is known. */
  private shownFirst = -1;
  private frame = 0;
  private resting: ReturnType<typeof setTimeout> | undefined;
  private isMoving = false;
  /** Where the pointer went down, and how far it has moved since. */
  private grip: { x: number; y: number; moved: number } | null = null;
  onSelect: (node: number) => void = () => undefined;
  onOpen: (node: number) => void = () => undefined;
  nameOf: (node: number) => string = () => "";

  constructor(private readonly canvas: HTMLCanvasElement) {
    canvas.addEventListener("wheel", this.wheel, { passive: false });
  }

  close(): void {
    this.canvas.removeEventListener("wheel", this.wheel);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
  }

  /** Another picture. What is selected stays where it is; a graph that is new is shown whole. */
  set(painter: Painter, layout: Layout, selected: number, found: Uint8Array | null): void {
    const before = this.layout;
    const was = this.marks.selected;
    this.painter = painter;
    this.layout = layout;
    this.marks = { selected, found, hovered: -1 };
    if (before !== null && before !== layout) {
      if (was >= 0 && selected >= 0 && before.x.length > layout.x.length / 2 && layout.x.length > before.x.length / 2) {
        this.sight.x += layout.x[selected]! - before.x[was]!;
        this.sight.y += layout.y[selected]! - before.y[was]!;
      } else this.sight.scale = 0;
    }
    this.draw(false);
  }

  resize(width: number, height: number): void {
    if (!width || !height || (width === this.width && height === this.height)) return;
    this.width = width;
    this.height = height;
    this.canvas.width = width * devicePixelRatio;
    this.canvas.height = height * devicePixelRatio;
    if (this.shownFirst >= 0) this.show(this.shownFirst);
    this.shownFirst = -1;
    this.draw(false);
  }

  fitAll(): void {
    this.sight.scale = 0;
    this.draw(false);
  }

  /** By pixels. */
  move(dx: number, dy: number): void {
    this.sight.x += dx / this.sight.scale;
    this.sight.y += dy / this.sight.scale;
    this.draw(true);
  }

  /** Around a point of the canvas, by default its middle. */
  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const scale = Math.min(LARGEST_SCALE, Math.max(SMALLEST_SCALE, this.sight.scale * factor));
    this.sight.x += x / this.sight.scale - x / scale;
    this.sight.y += y / this.sight.scale - y / scale;
    this.sight.scale = scale;
    this.draw(true);
  }

  /** Bring a node into sight, so near that its name can be read. */
  show(node: number): void {
    if (!this.layout) return;
    if (!this.width) {
      this.shownFirst = node;
      return;
    }
    const [x, y] = [this.layout.x[node]!, this.layout.y[node]!];
    const { scale } = this.sight;
    const [left, top] = [(x - this.sight.x) * scale, (y - this.sight.y) * scale];
    const isInSight = left >= 0 && top >= 0 && left + NODE_WIDTH * scale <= this.width && top + NODE_HEIGHT * scale <= this.height;
    if (isInSight && scale >= READABLE_SCALE / 2) return;
    this.sight.scale = Math.max(scale, READABLE_SCALE);
    this.sight.x = x + NODE_WIDTH / 2 - this.width / 2 / this.sight.scale;
    this.sight.y = y + NODE_HEIGHT / 2 - this.height / 2 / this.sight.scale;
    this.draw(false);
  }

  /** The node that is nearest to the middle of what is in sight. */
  nearest(): number {
    if (!this.layout) return -1;
    const x = this.sight.x + (this.width / this.sight.scale - NODE_WIDTH) / 2;
    const y = this.sight.y + (this.height / this.sight.scale - NODE_HEIGHT) / 2;
    let best = -1;
    let distance = Infinity;
    for (let node = 0; node < this.layout.x.length; node++) {
      const far = Math.hypot(this.layout.x[node]! - x, this.layout.y[node]! - y);
      if (far < distance) [best, distance] = [node, far];
    }
    return best;
  }

  pointerDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.grip = { x: event.clientX, y: event.clientY, moved: 0 };
  }

  pointerMove(event: PointerEvent): void {
    if (!this.grip) {
      this.hover(this.under(event));
      return;
    }
    const [dx, dy] = [event.clientX - this.grip.x, event.clientY - this.grip.y];
    this.grip = { x: event.clientX, y: event.clientY, moved: this.grip.moved + Math.abs(dx) + Math.abs(dy) };
    if (this.grip.moved > CLICK_PX) this.move(-dx, -dy);
  }

  pointerUp(event: PointerEvent): void {
    const isClick = this.grip !== null && this.grip.moved <= CLICK_PX;
    this.grip = null;
    if (isClick) this.onSelect(this.under(event));
  }

  pointerCancel(): void {
    this.grip = null;
  }

  doubleClick(event: MouseEvent): void {
    const node = this.under(event);
    if (node >= 0) this.onOpen(node);
  }

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 32 : event.deltaY;
    this.zoom(Math.exp(-pixels * 0.0015), event.offsetX, event.offsetY);
  };

  private under(event: MouseEvent): number {
    if (!this.layout) return -1;
    const box = this.canvas.getBoundingClientRect();
    const x = this.sight.x + (event.clientX - box.left) / this.sight.scale;
    const y = this.sight.y + (event.clientY - box.top) / this.sight.scale;
    return nodeAt(this.layout, x, y, 2 / this.sight.scale);
  }

  private hover(node: number): void {
    if (node === this.marks.hovered) return;
    this.marks.hovered = node;
    this.canvas.title = node < 0 ? "" : this.nameOf(node);
    this.canvas.classList.toggle("on-node", node >= 0);
    this.draw(this.isMoving);
  }

  /** In the next frame. A picture that moves has a part of its edges; the others follow when it rests. */
  private draw(isMoving: boolean): void {
    this.isMoving = isMoving;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  private drawNow(): void {
    if (!this.painter || !this.layout || !this.width) return;
    const isFirst = this.sight.scale === 0;
    if (isFirst) this.sight = fit(this.layout, this.width, this.height);
    const isPartial = this.painter.paint(this.canvas, this.sight, this.marks, this.isMoving || isFirst);
    const { x, y, scale } = this.sight;
    this.canvas.dataset.sight = `${x.toFixed(1)} ${y.toFixed(1)} ${scale.toFixed(4)}`;
    clearTimeout(this.resting);
    if (isPartial) this.resting = setTimeout(() => this.draw(false), AT_REST_MS);
  }
}
