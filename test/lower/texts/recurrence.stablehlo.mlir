module @recurrence {
  func.func public @main(%arg0: tensor<3x3xf32>, %arg1: tensor<5x3xf32>) -> (tensor<f32>, tensor<3x3xf32>) {
    %0 = "stablehlo.slice"(%arg1) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 3>, strides = array<i64: 1, 1>}> : (tensor<5x3xf32>) -> tensor<1x3xf32>
    %1 = "stablehlo.reshape"(%0) : (tensor<1x3xf32>) -> tensor<3xf32>
    %2 = "stablehlo.constant"() <{value = dense<0.0> : tensor<5xf32>}> : () -> tensor<5xf32>
    %3 = "stablehlo.constant"() <{value = dense<0.0> : tensor<5x3xf32>}> : () -> tensor<5x3xf32>
    %4 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %26:5 = "stablehlo.while"(%4, %1, %2, %3, %3) ({
    ^bb0(%r5_0: tensor<i32>, %r5_1: tensor<3xf32>, %r5_2: tensor<5xf32>, %r5_3: tensor<5x3xf32>, %r5_4: tensor<5x3xf32>):
      %6 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
      %7 = "stablehlo.compare"(%r5_0, %6) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%7) : (tensor<i1>) -> ()
    }, {
    ^bb0(%r8_0: tensor<i32>, %r8_1: tensor<3xf32>, %r8_2: tensor<5xf32>, %r8_3: tensor<5x3xf32>, %r8_4: tensor<5x3xf32>):
      %9 = "stablehlo.dynamic_slice"(%arg1, %r8_0, %4) <{slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %10 = "stablehlo.reshape"(%9) : (tensor<1x3xf32>) -> tensor<3xf32>
      %11 = "stablehlo.dot_general"(%r8_1, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
      %12 = "stablehlo.add"(%11, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %13 = "stablehlo.tanh"(%12) : (tensor<3xf32>) -> tensor<3xf32>
      %14 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
      %17 = "stablehlo.reduce"(%13, %14) <{dimensions = array<i64: 0>}> ({
      ^bb0(%r15_0: tensor<f32>, %r15_1: tensor<f32>):
        %16 = "stablehlo.add"(%r15_0, %r15_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%16) : (tensor<f32>) -> ()
      }) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      %18 = "stablehlo.reshape"(%17) : (tensor<f32>) -> tensor<1xf32>
      %19 = "stablehlo.dynamic_update_slice"(%r8_2, %18, %r8_0) : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
      %20 = "stablehlo.reshape"(%r8_1) : (tensor<3xf32>) -> tensor<1x3xf32>
      %21 = "stablehlo.dynamic_update_slice"(%r8_3, %20, %r8_0, %4) : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
      %22 = "stablehlo.reshape"(%13) : (tensor<3xf32>) -> tensor<1x3xf32>
      %23 = "stablehlo.dynamic_update_slice"(%r8_4, %22, %r8_0, %4) : (tensor<5x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
      %24 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %25 = "stablehlo.add"(%r8_0, %24) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%25, %13, %19, %21, %23) : (tensor<i32>, tensor<3xf32>, tensor<5xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> ()
    }) : (tensor<i32>, tensor<3xf32>, tensor<5xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<i32>, tensor<3xf32>, tensor<5xf32>, tensor<5x3xf32>, tensor<5x3xf32>)
    %27 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %30 = "stablehlo.reduce"(%26#2, %27) <{dimensions = array<i64: 0>}> ({
    ^bb0(%r28_0: tensor<f32>, %r28_1: tensor<f32>):
      %29 = "stablehlo.add"(%r28_0, %r28_1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%29) : (tensor<f32>) -> ()
    }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
    %31 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
    %32 = "stablehlo.reshape"(%31) : (tensor<f32>) -> tensor<1xf32>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64: 0>}> : (tensor<1xf32>) -> tensor<5xf32>
    %34 = "stablehlo.constant"() <{value = dense<0.0> : tensor<3xf32>}> : () -> tensor<3xf32>
    %35 = "stablehlo.constant"() <{value = dense<0.0> : tensor<3x3xf32>}> : () -> tensor<3x3xf32>
    %61:3 = "stablehlo.while"(%4, %34, %35) ({
    ^bb0(%r36_0: tensor<i32>, %r36_1: tensor<3xf32>, %r36_2: tensor<3x3xf32>):
      %37 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
      %38 = "stablehlo.compare"(%r36_0, %37) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%38) : (tensor<i1>) -> ()
    }, {
    ^bb0(%r39_0: tensor<i32>, %r39_1: tensor<3xf32>, %r39_2: tensor<3x3xf32>):
      %40 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
      %41 = "stablehlo.subtract"(%40, %r39_0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %42 = "stablehlo.dynamic_slice"(%33, %41) <{slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
      %43 = "stablehlo.reshape"(%42) : (tensor<1xf32>) -> tensor<f32>
      %44 = "stablehlo.dynamic_slice"(%26#3, %41, %4) <{slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %45 = "stablehlo.reshape"(%44) : (tensor<1x3xf32>) -> tensor<3xf32>
      %46 = "stablehlo.dynamic_slice"(%26#4, %41, %4) <{slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %47 = "stablehlo.reshape"(%46) : (tensor<1x3xf32>) -> tensor<3xf32>
      %48 = "stablehlo.reshape"(%43) : (tensor<f32>) -> tensor<1xf32>
      %49 = "stablehlo.broadcast_in_dim"(%48) <{broadcast_dimensions = array<i64: 0>}> : (tensor<1xf32>) -> tensor<3xf32>
      %50 = "stablehlo.add"(%r39_1, %49) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %51 = "stablehlo.multiply"(%47, %47) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %52 = "stablehlo.negate"(%51) : (tensor<3xf32>) -> tensor<3xf32>
      %53 = "stablehlo.constant"() <{value = dense<1.0> : tensor<3xf32>}> : () -> tensor<3xf32>
      %54 = "stablehlo.add"(%52, %53) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %55 = "stablehlo.multiply"(%50, %54) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %56 = "stablehlo.dot_general"(%55, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
      %57 = "stablehlo.dot_general"(%45, %55) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
      %58 = "stablehlo.add"(%r39_2, %57) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
      %59 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %60 = "stablehlo.add"(%r39_0, %59) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%60, %56, %58) : (tensor<i32>, tensor<3xf32>, tensor<3x3xf32>) -> ()
    }) : (tensor<i32>, tensor<3xf32>, tensor<3x3xf32>) -> (tensor<i32>, tensor<3xf32>, tensor<3x3xf32>)
    "func.return"(%30, %61#2) : (tensor<f32>, tensor<3x3xf32>) -> ()
  }
}
