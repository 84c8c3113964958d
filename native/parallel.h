// Work in numbered parts on the threads of XLA's pool.
#pragma once

/** Whatever schedules tasks; defined where the parts are run. */
struct Threads;

/**
 * Calls run(context, i) once for each i below `count`, in any order and on several threads at once; returns when all are done:
 * whether all gave true.
 */
bool parallelFor(Threads* threads, long count, bool (*run)(void* context, long i), void* context);

/** Memory of this thread for temporaries, 64-byte aligned, valid until the thread asks again; null where there is none. */
void* scratch(unsigned long bytes);

/** 64-byte aligned memory that the next call may get again after `release`; null where there is none. */
void* allocate(unsigned long bytes);
void release(void* memory);
