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
    %38 = "stablehlo.divide"(%37, %30) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %39 = "stablehlo.reshape"(%38) : (tensor<f32>) -> tensor<1x1xf32>
    %40 = "stablehlo.broadcast_in_dim"(%39) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x1xf32>) -> tensor<6x1xf32>
    %41 = "stablehlo.negate"(%40) : (tensor<6x1xf32>) -> tensor<6x1xf32>
    %42 = "stablehlo.divide"(%41, %24) : (tensor<6x1xf32>, tensor<6x1xf32>) -> tensor<6x1xf32>
    %43 = "stablehlo.reshape"(%42) : (tensor<6x1xf32>) -> tensor<6xf32>
    %44 = "stablehlo.reshape"(%43) : (tensor<6xf32>) -> tensor<6x1xf32>
    %45 = "stablehlo.broadcast_in_dim"(%44) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %46 = "stablehlo.multiply"(%45, %20) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %47 = "stablehlo.reshape"(%40) : (tensor<6x1xf32>) -> tensor<6xf32>
    %48 = "stablehlo.reshape"(%47) : (tensor<6xf32>) -> tensor<6x1xf32>
    %49 = "stablehlo.broadcast_in_dim"(%48) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %50 = "stablehlo.select"(%12, %49, %14) : (tensor<6x10xi1>, tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %51 = "stablehlo.add"(%46, %50) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %52 = "stablehlo.negate"(%51) : (tensor<6x10xf32>) -> tensor<6x10xf32>
    %55 = "stablehlo.reduce"(%52, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r53_0: tensor<f32>, %r53_1: tensor<f32>):
      %54 = "stablehlo.add"(%r53_0, %r53_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%54) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %56 = "stablehlo.reshape"(%55) : (tensor<6xf32>) -> tensor<6x1xf32>
    %57 = "stablehlo.reshape"(%56) : (tensor<6x1xf32>) -> tensor<6xf32>
    %58 = "stablehlo.compare"(%1, %7) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xi1>
    %59 = "stablehlo.convert"(%58) : (tensor<6x10xi1>) -> tensor<6x10xf32>
    %62 = "stablehlo.reduce"(%59, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%r60_0: tensor<f32>, %r60_1: tensor<f32>):
      %61 = "stablehlo.add"(%r60_0, %r60_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%61) : (tensor<f32>) -> ()
    }) : (tensor<6x10xf32>, tensor<f32>) -> tensor<6xf32>
    %63 = "stablehlo.divide"(%57, %62) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %64 = "stablehlo.reshape"(%63) : (tensor<6xf32>) -> tensor<6x1xf32>
    %65 = "stablehlo.broadcast_in_dim"(%64) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<6x1xf32>) -> tensor<6x10xf32>
    %66 = "stablehlo.multiply"(%65, %59) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %67 = "stablehlo.add"(%51, %66) : (tensor<6x10xf32>, tensor<6x10xf32>) -> tensor<6x10xf32>
    %68 = "stablehlo.dot_general"(%67, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x10xf32>, tensor<10x4xf32>) -> tensor<6x4xf32>
    %69 = "stablehlo.dot_general"(%67, %0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<6x10xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
    %70 = "stablehlo.constant"() <{value = dense<0> : tensor<6xi32>}> : () -> tensor<6xi32>
    %71 = "stablehlo.maximum"(%arg1, %70) : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %72 = "stablehlo.constant"() <{value = dense<9> : tensor<6xi32>}> : () -> tensor<6xi32>
    %73 = "stablehlo.minimum"(%71, %72) : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
    %74 = "stablehlo.constant"() <{value = dense<0.0> : tensor<10x4xf32>}> : () -> tensor<10x4xf32>
    %77 = "stablehlo.scatter"(%74, %73, %68) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%r75_0: tensor<f32>, %r75_1: tensor<f32>):
      %76 = "stablehlo.add"(%r75_0, %r75_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%76) : (tensor<f32>) -> ()
    }) : (tensor<10x4xf32>, tensor<6xi32>, tensor<6x4xf32>) -> tensor<10x4xf32>
    %78 = "stablehlo.add"(%69, %77) : (tensor<10x4xf32>, tensor<10x4xf32>) -> tensor<10x4xf32>
    "func.return"(%35, %78) : (tensor<f32>, tensor<10x4xf32>) -> ()
  }
}
