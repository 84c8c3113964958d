/**
 * The structs and the function table of the PJRT C API as a typed table, by their C names.
 *
 * Every PJRT function takes one pointer to one `<function>_Args` struct. Each struct begins with its own size and an
 * extension pointer; the plugin accepts any size that is at least the one it knows, so the table holds the newest fields
 * known (API 0.113). Offsets follow from C alignment and are computed, never written down.
 */

/** ptr and usize are 8 bytes (only 64-bit platforms have plugins); enums and C ints are i32. */
export type FieldKind = "ptr" | "usize" | "i64" | "i32" | "bool";

const sizeOfKind: Record<FieldKind, number> = { ptr: 8, usize: 8, i64: 8, i32: 4, bool: 1 };

type Fields = Readonly<Record<string, FieldKind>>;

/** Fields after the common header (struct_size, extension_start), in C order. */
export const structs = {
  PJRT_Error_Destroy_Args: { error: "ptr" },
  PJRT_Error_Message_Args: { error: "ptr", message: "ptr", message_size: "usize" },
  PJRT_Error_GetCode_Args: { error: "ptr", code: "i32" },
  PJRT_Plugin_Initialize_Args: {},
  PJRT_Plugin_Attributes_Args: { attributes: "ptr", num_attributes: "usize" },
  PJRT_Event_Destroy_Args: { event: "ptr" },
  PJRT_Event_IsReady_Args: { event: "ptr", is_ready: "bool" },
  PJRT_Event_Error_Args: { event: "ptr" },
  PJRT_Event_Await_Args: { event: "ptr" },
  PJRT_Client_Create_Args: {
    create_options: "ptr",
    num_options: "usize",
    kv_get_callback: "ptr",
    kv_get_user_arg: "ptr",
    kv_put_callback: "ptr",
    kv_put_user_arg: "ptr",
    client: "ptr",
    kv_try_get_callback: "ptr",
    kv_try_get_user_arg: "ptr",
  },
  PJRT_Client_Destroy_Args: { client: "ptr" },
  PJRT_Client_PlatformName_Args: { client: "ptr", platform_name: "ptr", platform_name_size: "usize" },
  PJRT_Client_PlatformVersion_Args: { client: "ptr", platform_version: "ptr", platform_version_size: "usize" },
  PJRT_Client_AddressableDevices_Args: {
    client: "ptr",
    addressable_devices: "ptr",
    num_addressable_devices: "usize",
  },
  PJRT_Client_Compile_Args: {
    client: "ptr",
    program: "ptr",
    compile_options: "ptr",
    compile_options_size: "usize",
    executable: "ptr",
  },
  PJRT_Client_BufferFromHostBuffer_Args: {
    client: "ptr",
    data: "ptr",
    type: "i32",
    dims: "ptr",
    num_dims: "usize",
    byte_strides: "ptr",
    num_byte_strides: "usize",
    host_buffer_semantics: "i32",
    device: "ptr",
    memory: "ptr",
    device_layout: "ptr",
    done_with_host_buffer: "ptr",
    buffer: "ptr",
  },
  PJRT_DeviceDescription_Id_Args: { device_description: "ptr", id: "i32" },
  PJRT_DeviceDescription_Kind_Args: { device_description: "ptr", device_kind: "ptr", device_kind_size: "usize" },
  PJRT_Device_GetDescription_Args: { device: "ptr", device_description: "ptr" },
  PJRT_Executable_Destroy_Args: { executable: "ptr" },
  PJRT_Executable_Name_Args: { executable: "ptr", executable_name: "ptr", executable_name_size: "usize" },
  PJRT_Executable_OutputElementTypes_Args: { executable: "ptr", output_types: "ptr", num_output_types: "usize" },
  PJRT_Executable_OutputDimensions_Args: { executable: "ptr", num_outputs: "usize", dims: "ptr", dim_sizes: "ptr" },
  PJRT_Executable_OptimizedProgram_Args: { executable: "ptr", program: "ptr" },
  PJRT_Executable_Fingerprint_Args: {
    executable: "ptr",
    executable_fingerprint: "ptr",
    executable_fingerprint_size: "usize",
  },
  PJRT_Executable_GetCompiledMemoryStats_Args: {
    executable: "ptr",
    generated_code_size_in_bytes: "i64",
    argument_size_in_bytes: "i64",
    output_size_in_bytes: "i64",
    alias_size_in_bytes: "i64",
    temp_size_in_bytes: "i64",
    host_generated_code_size_in_bytes: "i64",
    host_argument_size_in_bytes: "i64",
    host_output_size_in_bytes: "i64",
    host_alias_size_in_bytes: "i64",
    host_temp_size_in_bytes: "i64",
    peak_memory_in_bytes: "i64",
    total_size_in_bytes: "i64",
    total_allocation_bytes: "i64",
    indefinite_allocations: "i64",
    peak_unpadded_heap_bytes: "i64",
  },
  PJRT_Executable_Serialize_Args: {
    executable: "ptr",
    serialized_bytes: "ptr",
    serialized_bytes_size: "usize",
    serialized_executable: "ptr",
    serialized_executable_deleter: "ptr",
  },
  PJRT_Executable_DeserializeAndLoad_Args: {
    client: "ptr",
    serialized_executable: "ptr",
    serialized_executable_size: "usize",
    loaded_executable: "ptr",
    overridden_serialized_compile_options: "ptr",
    overridden_serialized_compile_options_size: "usize",
    load_options: "ptr",
  },
  PJRT_LoadedExecutable_Destroy_Args: { executable: "ptr" },
  PJRT_LoadedExecutable_GetExecutable_Args: { loaded_executable: "ptr", executable: "ptr" },
  PJRT_LoadedExecutable_AddressableDevices_Args: {
    executable: "ptr",
    addressable_devices: "ptr",
    num_addressable_devices: "usize",
  },
  PJRT_LoadedExecutable_Execute_Args: {
    executable: "ptr",
    options: "ptr",
    argument_lists: "ptr",
    num_devices: "usize",
    num_args: "usize",
    output_lists: "ptr",
    device_complete_events: "ptr",
    execute_device: "ptr",
  },
  PJRT_Buffer_Destroy_Args: { buffer: "ptr" },
  PJRT_Buffer_OnDeviceSizeInBytes_Args: { buffer: "ptr", on_device_size_in_bytes: "usize" },
  PJRT_Buffer_IsDeleted_Args: { buffer: "ptr", is_deleted: "bool" },
  PJRT_Buffer_ToHostBuffer_Args: { src: "ptr", host_layout: "ptr", dst: "ptr", dst_size: "usize", event: "ptr" },
  PJRT_Buffer_UnsafePointer_Args: { buffer: "ptr", buffer_pointer: "ptr" },

  // Structs that arguments point to.
  PJRT_Program: { code: "ptr", code_size: "usize", format: "ptr", format_size: "usize" },
  /** The value is a union at 8 bytes; "value" holds a pointer, an int64, or the bits of a float or bool. */
  PJRT_NamedValue: { name: "ptr", name_size: "usize", type: "i32", value: "i64", value_size: "usize" },
  PJRT_ExecuteOptions: {
    send_callbacks: "ptr",
    recv_callbacks: "ptr",
    num_send_ops: "usize",
    num_recv_ops: "usize",
    launch_id: "i32",
    non_donatable_input_indices: "ptr",
    num_non_donatable_input_indices: "usize",
    context: "ptr",
    call_location: "ptr",
    num_tasks: "usize",
    task_ids: "ptr",
    incarnation_ids: "ptr",
    multi_slice_config: "ptr",
    use_major_to_minor_data_layout_for_callbacks: "bool",
    hlo_output_callbacks: "ptr",
    num_hlo_output_callbacks: "usize",
  },
  /** The union of tiled and strided layouts, as its larger member (tiled) lies in it. */
  PJRT_Buffer_MemoryLayout: {
    tiled_struct_size: "usize",
    tiled_extension_start: "ptr",
    minor_to_major: "ptr",
    minor_to_major_size: "usize",
    tile_dims: "ptr",
    tile_dim_sizes: "ptr",
    num_tiles: "usize",
    type: "i32",
  },
} as const satisfies Record<string, Fields>;

export type StructName = keyof typeof structs;
export type StructFields<N extends StructName> = (typeof structs)[N];

export interface FieldLayout {
  readonly name: string;
  readonly kind: FieldKind;
  readonly offset: number;
}

export interface StructLayout {
  readonly name: StructName;
  readonly fields: readonly FieldLayout[];
  /** Up to the end of the last field, without tail padding: what the API calls the struct's size. */
  readonly size: number;
  /** With tail padding: the distance of two structs in an array. */
  readonly stride: number;
}

const headerSize = 16;

function layOut(name: StructName): StructLayout {
  let end = headerSize;
  const fields = Object.entries(structs[name] as Fields).map(([field, kind]) => {
    const size = sizeOfKind[kind];
    const offset = Math.ceil(end / size) * size;
    end = offset + size;
    return { name: field, kind, offset };
  });
  return { name, fields, size: end, stride: Math.ceil(end / 8) * 8 };
}

const layouts = new Map(Object.keys(structs).map((name) => [name, layOut(name as StructName)]));

/** Offsets of a struct's fields and its size. */
export function structLayout(name: StructName): StructLayout {
  return layouts.get(name)!;
}
