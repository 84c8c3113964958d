module @mlpStep {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xf32>, %arg2: tensor<8xf32>, %arg3: tensor<16x4xf32>, %arg4: tensor<16x2xf32>) -> (tensor<f32>, tensor<4x8xf32>, tensor<8x2xf32>, tensor<8xf32>) {
    %0 = "stablehlo.convert"(%arg3) : (tensor<16x4xf32>) -> tensor<16x4xbf16>
    %1 = "stablehlo.convert"(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x4xbf16>, tensor<4x8xbf16>) -> tensor<16x8xf32>
    %3 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64: 1>}> : (tensor<8xf32>) -> tensor<16x8xf32>
    %4 = "stablehlo.add"(%2, %3) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %5 = "stablehlo.logistic"(%4) : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %6 = "stablehlo.multiply"(%4, %5) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %7 = "stablehlo.convert"(%6) : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %8 = "stablehlo.convert"(%arg1) : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %9 = "stablehlo.dot_general"(%7, %8) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x8xbf16>, tensor<8x2xbf16>) -> tensor<16x2xf32>
    %10 = "stablehlo.subtract"(%9, %arg4) : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x2xf32>
    %11 = "stablehlo.multiply"(%10, %10) : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x2xf32>
    %12 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.reduce"(%11, %12) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%r13_0: tensor<f32>, %r13_1: tensor<f32>):
      %14 = "stablehlo.add"(%r13_0, %r13_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) : (tensor<16x2xf32>, tensor<f32>) -> tensor<f32>
    %16 = "stablehlo.constant"() <{value = dense<32.0> : tensor<f32>}> : () -> tensor<f32>
    %17 = "stablehlo.divide"(%15, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %18 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
    %19 = "stablehlo.divide"(%18, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %20 = "stablehlo.reshape"(%19) : (tensor<f32>) -> tensor<1x1xf32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x1xf32>) -> tensor<16x2xf32>
    %22 = "stablehlo.multiply"(%21, %10) : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x2xf32>
    %23 = "stablehlo.reduce_precision"(%22) <{exponent_bits = 8 : i32, mantissa_bits = 23 : i32}> : (tensor<16x2xf32>) -> tensor<16x2xf32>
    %24 = "stablehlo.add"(%23, %22) : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x2xf32>
    %25 = "stablehlo.convert"(%24) : (tensor<16x2xf32>) -> tensor<16x2xbf16>
    %26 = "stablehlo.dot_general"(%25, %8) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x2xbf16>, tensor<8x2xbf16>) -> tensor<16x8xf32>
    %27 = "stablehlo.convert"(%26) : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %28 = "stablehlo.dot_general"(%7, %25) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x8xbf16>, tensor<16x2xbf16>) -> tensor<8x2xf32>
    %29 = "stablehlo.convert"(%28) : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %30 = "stablehlo.convert"(%29) : (tensor<8x2xbf16>) -> tensor<8x2xf32>
    %31 = "stablehlo.convert"(%27) : (tensor<16x8xbf16>) -> tensor<16x8xf32>
    %32 = "stablehlo.multiply"(%31, %5) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %33 = "stablehlo.multiply"(%31, %4) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %34 = "stablehlo.multiply"(%33, %5) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %35 = "stablehlo.negate"(%5) : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %36 = "stablehlo.constant"() <{value = dense<1.0> : tensor<16x8xf32>}> : () -> tensor<16x8xf32>
    %37 = "stablehlo.add"(%35, %36) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %38 = "stablehlo.multiply"(%34, %37) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %39 = "stablehlo.add"(%32, %38) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %42 = "stablehlo.reduce"(%39, %12) <{dimensions = array<i64: 0>}> ({
    ^bb0(%r40_0: tensor<f32>, %r40_1: tensor<f32>):
      %41 = "stablehlo.add"(%r40_0, %r40_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%41) : (tensor<f32>) -> ()
    }) : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %43 = "stablehlo.convert"(%39) : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %44 = "stablehlo.dot_general"(%0, %43) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x4xbf16>, tensor<16x8xbf16>) -> tensor<4x8xf32>
    %45 = "stablehlo.convert"(%44) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %46 = "stablehlo.convert"(%45) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %47 = "stablehlo.constant"() <{value = dense<0.10000000149011612> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
    %48 = "stablehlo.multiply"(%46, %47) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %49 = "stablehlo.subtract"(%arg0, %48) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %50 = "stablehlo.constant"() <{value = dense<0.10000000149011612> : tensor<8x2xf32>}> : () -> tensor<8x2xf32>
    %51 = "stablehlo.multiply"(%30, %50) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %52 = "stablehlo.subtract"(%arg1, %51) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %53 = "stablehlo.constant"() <{value = dense<0.10000000149011612> : tensor<8xf32>}> : () -> tensor<8xf32>
    %54 = "stablehlo.multiply"(%42, %53) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %55 = "stablehlo.subtract"(%arg2, %54) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "func.return"(%17, %49, %52, %55) : (tensor<f32>, tensor<4x8xf32>, tensor<8x2xf32>, tensor<8xf32>) -> ()
  }
}
