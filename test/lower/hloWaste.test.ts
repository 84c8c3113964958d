/** That each kind of waste is found, in a program as XLA writes it, and that its neighbours are not. */
import { describe, expect, it } from "vitest";
import { contractionLines, largeCopies, roundTrips, slowContractions } from "./hloWaste.ts";

const hlo = `HloModule wasteful, is_scheduled=true

%widen (p.0: bf16[512,256]) -> f32[512,256] {
  %p.0 = bf16[512,256]{1,0} parameter(0)
  ROOT %convert.0 = f32[512,256]{1,0} convert(%p.0), metadata={op_name="layers.1.mlp"}
}

%narrow (p.1: f32[256,512]) -> bf16[512,256] {
  %p.1 = f32[256,512]{1,0} parameter(0)
  %transpose.1 = f32[512,256]{1,0} transpose(%p.1), dimensions={1,0}
  ROOT %convert.1 = bf16[512,256]{1,0} convert(%transpose.1), metadata={op_name="layers.1.mlp"}
}

%rounded (p.2: f32[512,256]) -> f32[512,256] {
  %p.2 = f32[512,256]{1,0} parameter(0)
  %convert.2 = bf16[512,256]{1,0} convert(%p.2)
  ROOT %convert.3 = f32[512,256]{1,0} convert(%convert.2)
}

%moved (p.3: f32[512,512]) -> f32[512,512] {
  %p.3 = f32[512,512]{1,0} parameter(0)
  ROOT %copy.3 = f32[512,512]{0,1} copy(%p.3), metadata={op_name="layers.1.attn"}
}

%scaled (p.4: f32[512,512]) -> f32[512,512] {
  %p.4 = f32[512,512]{1,0} parameter(0)
  ROOT %multiply.4 = f32[512,512]{1,0} multiply(%p.4, %p.4)
}

ENTRY %main (x: bf16[512,256], y: bf16[256,512], z: f32[512,256]) -> f32[512,512] {
  %x = bf16[512,256]{1,0} parameter(0)
  %y = bf16[256,512]{1,0} parameter(1)
  %z = f32[512,256]{1,0} parameter(2)
  %fusion.0 = f32[512,256]{1,0} fusion(%x), kind=kLoop, calls=%widen
  %bitcast.0 = f32[256,512]{1,0} bitcast(%fusion.0)
  %fusion.1 = bf16[512,256]{1,0} fusion(%bitcast.0), kind=kLoop, calls=%narrow
  %fusion.2 = f32[512,256]{1,0} fusion(%z), kind=kLoop, calls=%rounded
  %convert.5 = f32[256,512]{1,0} convert(%y)
  %dot.0 = f32[512,512]{1,0} dot(%fusion.0, %convert.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="layers.1.mlp.up:fprop"}
  %dot.1 = f32[512,512]{1,0} dot(%y, %fusion.1), lhs_contracting_dims={0}, rhs_contracting_dims={1}, metadata={op_name="layers.2.mlp.up:wgrad"}
  %dot.2 = f32[512,512]{1,0} dot(%fusion.2, %convert.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="layers.1.mlp.up:dgrad"}
  %fusion.3 = f32[512,512]{1,0} fusion(%dot.0), kind=kLoop, calls=%moved
  ROOT %fusion.4 = f32[512,512]{1,0} fusion(%fusion.3), kind=kLoop, calls=%scaled
}
`;

describe("waste in an optimized program", () => {
  it("is a conversion to float32 and back, through fusions and moves; a rounding is none", () => {
    expect(roundTrips(hlo)).toEqual(["    1 × bf16[512,256]{1,0} layers.N.mlp"]);
  });

  it("is a contraction of two converted operands, or along the left one's rows", () => {
    expect(slowContractions(hlo)).toEqual([
      "    1 × both operands converted: f32[512,512]{1,0} layers.N.mlp.up:fprop",
      "    1 × both operands converted: f32[512,512]{1,0} layers.N.mlp.up:dgrad",
      "    1 × left operand contracted along its rows: f32[512,512] layers.N.mlp.up:wgrad",
    ]);
  });

  it("is a loop that only copies", () => {
    expect(largeCopies(hlo, 1_000_000)).toEqual([
      { times: 1, bytes: 4 * 512 * 512, result: "f32[512,512]", place: "layers.N.attn" },
    ]);
    expect(largeCopies(hlo, 2_000_000)).toEqual([]);
  });

  it("shows beside every contraction how it runs", () => {
    expect(contractionLines(hlo).map((line) => line.replaceAll(/ +/g, " "))).toEqual([
      " 1 × dot f32[512,256] · f32[256,512] → f32[512,512] layers.N.mlp.up:fprop",
      " 1 × dot bf16[256,512]ᵀ · bf16[512,256]ᵀ → f32[512,512] layers.N.mlp.up:wgrad",
      " 1 × dot f32[512,256] · f32[256,512] → f32[512,512] layers.N.mlp.up:dgrad",
    ]);
  });
});
