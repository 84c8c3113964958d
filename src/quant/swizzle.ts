/**
 * The order in which Blackwell's block-scaled matmuls read scales. A matrix of scales, a row for each row of the operand
 * and a column for each block, is padded with zeros to tiles of 128 × 4; tiles follow each other row by row, and within one of its 512 bytes
 * the scale of row r and column c lies at (r mod 32) · 16 + ⌊r / 32⌋ · 4 + c. So the four scales that a row's 64 (or 128) next
 * elements need are one word.
 */
import { pad, type Tensor } from "../core/index.ts";

const tile = { rows: 128, columns: 4 } as const;
const tileBytes = tile.rows * tile.columns;
/** A tile's rows fall into four groups of 32. */
const [groups, rowsOfGroup] = [4, 32] as const;

const tilesOf = (rows: number, columns: number): readonly [number, number] => [
  Math.ceil(rows / tile.rows),
  Math.ceil(columns / tile.columns),
];

/** Bytes that the scales of [rows, columns] take, padding included. */
export function swizzledSize(rows: number, columns: number): number {
  const [down, across] = tilesOf(rows, columns);
  return down * across * tileBytes;
}

/** Where the scale of a row and column lies, in a matrix of `columns` columns. */
export function swizzledOffset(row: number, column: number, columns: number): number {
  const [, across] = tilesOf(1, columns);
  const tileIndex = Math.floor(row / tile.rows) * across + Math.floor(column / tile.columns);
  const r = row % tile.rows;
  return tileIndex * tileBytes + (r % rowsOfGroup) * 16 + Math.floor(r / rowsOfGroup) * 4 + (column % tile.columns);
}

/** Scales [R, C] of any dtype → [`swizzledSize`], in the order of block-scaled matmuls; padding is 0. */
export function swizzleScales(scales: Tensor): Tensor {
  const [rows, columns] = scales.shape as [number, number];
  const [down, across] = tilesOf(rows, columns);
  return pad(scales, { low: [0, 0], high: [down * tile.rows - rows, across * tile.columns - columns] })
    .reshape([down, groups, rowsOfGroup, across, tile.columns])
    .transpose([0, 3, 2, 1, 4])
    .reshape([-1]);
}

/** The inverse of `swizzleScales`, padding dropped. */
export function unswizzleScales(swizzled: Tensor, rows: number, columns: number): Tensor {
  const [down, across] = tilesOf(rows, columns);
  return swizzled
    .reshape([down, across, rowsOfGroup, groups, tile.columns])
    .transpose([0, 3, 2, 1, 4])
    .reshape([down * tile.rows, across * tile.columns])
    .slice([0, 0], [rows, columns]);
}

/** `swizzleScales` of bytes in host memory. */
export function swizzleBytes(scales: Uint8Array, rows: number, columns: number): Uint8Array {
  const swizzled = new Uint8Array(swizzledSize(rows, columns));
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) swizzled[swizzledOffset(r, c, columns)] = scales[r * columns + c]!;
  }
  return swizzled;
}

/** `unswizzleScales` of bytes in host memory. */
export function unswizzleBytes(swizzled: Uint8Array, rows: number, columns: number): Uint8Array {
  const scales = new Uint8Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) scales[r * columns + c] = swizzled[swizzledOffset(r, c, columns)]!;
  }
  return scales;
}
