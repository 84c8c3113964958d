module @embeddingLoss {
  func.func public @main(%arg0: tensor<10x4xf32>, %arg1: tensor<6xi32>, %arg2: tensor<6xi32>) -> (tensor<f32>, tensor<10x4xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> : (tensor<10x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
    %1 = "stablehlo.dot_general"(%0, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x4xf32>, tensor<10x4xf32>) -> tensor<6x10xf32>
    %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%1, %2) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r3_0: tensor<f32>, %r3_1: tensor<f32>):
      %4 = "stablehlo.maximum"(%r3_0, %r3_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %6 = "stablehlo.reshape"(%5) : (tensor<6xf32>) -> tensor<6x1xf32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %8 = "stablehlo.subtract"(%1, %7) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %9 = "stablehlo.reshape"(%arg2) : (tensor<6xi32>) -> tensor<6x1xi32>
    %10 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<6x10xi32>
    %11 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xi32>) -> tensor<6x10xi32>
    %12 = "stablehlo.compare"(%10, %11) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<6x10xi32>, tensor<6x10xi32>) -> tensor<6x10xi1>
    %13 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6x10xf32>
    %15 = "stablehlo.select"(%12, %8, %14) : (tensor<6x10xi1>, tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %18 = "stablehlo.reduce"(%15, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r16_0: tensor<f32>, %r16_1: tensor<f32>):
      %17 = "stablehlo.add"(%r16_0, %r16_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%17) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %19 = "stablehlo.reshape"(%18) : (tensor<6xf32>) -> tensor<6x1xf32>
    %20 = "stablehlo.exponential"(%8) : (tensor<6x10xf32>) -> tensor<6x10xf32>
    %23 = "stablehlo.reduce"(%20, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r21_0: tensor<f32>, %r21_1: tensor<f32>):
      %22 = "stablehlo.add"(%r21_0, %r21_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%22) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %24 = "stablehlo.reshape"(%23) : (tensor<6xf32>) -> tensor<6x1xf32>
    %25 = "stablehlo.log"(%24) : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %26 = "stablehlo.subtract"(%19, %25) : (tensor<6x1xf32>, tensor<6x1xf32>) -> tensor<6x1xf32>
    %29 = "stablehlo.reduce"(%26, %13) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%r27_0: tensor<f32>, %r27_1: tensor<f32>):
      %28 = "stablehlo.add"(%r27_0, %r27_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%28) : (tensor<f32>) -> ()
    }) : (tensor<6x1xf32>, tensor<f32>) -> tensor<f32>
    %30 = "stablehlo.constant"() <{value = dense<6.0> : tensor<f32>}> : () -> tensor<f32>
    %31 = "stablehlo.compare"(%29, %29) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %32 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
    %33 = "stablehlo.select"(%31, %30, %32) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %34 = "stablehlo.divide"(%29, %33) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %35 = "stablehlo.negate"(%34) : (tensor<f32>) -> tensor<f32>
    %36 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
    %37 = "stablehlo.negate"(%36) : (tensor<f32>) -> tensor<f32>
    %38 = "stablehlo.compare"(%37, %37) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %39 = "stablehlo.select"(%38, %30, %32) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %40 = "stablehlo.divide"(%37, %39) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %41 = "stablehlo.reshape"(%40) : (tensor<f32>) -> tensor<1x1xf32>
    %42 = "stablehlo.broadcast_in_dim"(%41) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x1xf32>) -> tensor<6x1xf32>
    %43 = "stablehlo.negate"(%42) : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %44 = "stablehlo.divide"(%43, %24) : (tensor<6x1xf32>, tensor<6x1xf32>) -> tensor<6x1xf32>
    %45 = "stablehlo.reshape"(%44) : (tensor<6x1xf32>) -> tensor<6xf32>
    %46 = "stablehlo.reshape"(%45) : (tensor<6xf32>) -> tensor<6x1xf32>
    %47 = "stablehlo.broadcast_in_dim"(%46) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %48 = "stablehlo.multiply"(%47, %20) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %49 = "stablehlo.reshape"(%42) : (tensor<6x1xf32>) -> tensor<6xf32>
    %50 = "stablehlo.reshape"(%49) : (tensor<6xf32>) -> tensor<6x1xf32>
    %51 = "stablehlo.broadcast_in_dim"(%50) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %52 = "stablehlo.select"(%12, %51, %14) : (tensor<6x10xi1>, tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %53 = "stablehlo.add"(%48, %52) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %54 = "stablehlo.negate"(%53) : (tensor<6x10xf32>) -> tensor<6x10xf32>
    %57 = "stablehlo.reduce"(%54, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r55_0: tensor<f32>, %r55_1: tensor<f32>):
      %56 = "stablehlo.add"(%r55_0, %r55_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%56) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %58 = "stablehlo.reshape"(%57) : (tensor<6xf32>) -> tensor<6x1xf32>
    %59 = "stablehlo.reshape"(%58) : (tensor<6x1xf32>) -> tensor<6xf32>
    %60 = "stablehlo.compare"(%1, %7) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xi1>
    %61 = "stablehlo.convert"(%60) : (tensor<6x10xi1>) -> tensor<6x10xf32>
    %64 = "stablehlo.reduce"(%61, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r62_0: tensor<f32>, %r62_1: tensor<f32>):
      %63 = "stablehlo.add"(%r62_0, %r62_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%63) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %65 = "stablehlo.divide"(%59, %64) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %66 = "stablehlo.reshape"(%65) : (tensor<6xf32>) -> tensor<6x1xf32>
    %67 = "stablehlo.broadcast_in_dim"(%66) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %68 = "stablehlo.multiply"(%67, %61) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %69 = "stablehlo.add"(%53, %68) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %70 = "stablehlo.dot_general"(%69, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x10xf32>, tensor<10x4xf32>) -> tensor<6x4xf32>
    %71 = "stablehlo.dot_general"(%69, %0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x10xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
    %72 = "stablehlo.constant"() <{value = dense<0> : tensor<6xi32>}> : () -> tensor<6xi32>
    %73 = "stablehlo.compare"(%arg1, %72) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
    %74 = "stablehlo.constant"() <{value = dense<9> : tensor<6xi32>}> : () -> tensor<6xi32>
    %75 = "stablehlo.compare"(%arg1, %74) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi1>
    %76 = "stablehlo.constant"() <{value = dense<9> : tensor<i32>}> : () -> tensor<i32>
    %77 = "stablehlo.broadcast_in_dim"(%76) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6xi32>
    %78 = "stablehlo.select"(%75, %77, %arg1) : (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %79 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %80 = "stablehlo.broadcast_in_dim"(%79) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<6xi32>
    %81 = "stablehlo.select"(%73, %80, %78) : (tensor<6xi1>, tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %82 = "stablehlo.constant"() <{value = dense<0.0> : tensor<10x4xf32>}> : () -> tensor<10x4xf32>
    %85 = "stablehlo.scatter"(%82, %81, %70) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%r83_0: tensor<f32>, %r83_1: tensor<f32>):
      %84 = "stablehlo.add"(%r83_0, %r83_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%84) : (tensor<f32>) -> ()
    }) : (tensor<10x4xf32>, tensor<6xi32>, tensor<6x4xf32>) -> tensor<10x4xf32>
    %86 = "stablehlo.add"(%71, %85) : (tensor<10x4xf32>, tensor<10x4xf32>) -> tensor<10x4xf32>
    "func.return"(%35, %86) : (tensor<f32>, tensor<10x4xf32>) -> ()
  }
}
