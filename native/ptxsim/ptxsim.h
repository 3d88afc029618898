// What libneedle_ptxsim exports beside the CUDA driver's cu* functions: checks, reports, counters.
//
// A program that drives a GPU through libcuda.so.1 drives the simulator by the same calls. These
// functions are about the simulation itself. None of them is needed to run kernels.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What is checked. Bounds, alignment, barriers and shuffle masks are always checked: a kernel that
// breaks them would break the process.
enum {
  PTXSIM_UNINITIALIZED = 1,  // reads of global, shared and local memory that nobody wrote
  PTXSIM_SHARED_RACES = 2,   // between threads of a block, in shared memory
  PTXSIM_GLOBAL_RACES = 4,   // between threads of a block, and between blocks, in global memory
  PTXSIM_COUNTERS = 8,       // sectors and bank conflicts
  PTXSIM_TRACE = 16,         // keeps each access, for ptxsim_trace; off by default
  PTXSIM_ALL_CHECKS = 15
};

void ptxsim_set_checks(uint32_t checks);  // of launches from now on
uint32_t ptxsim_checks(void);
void ptxsim_set_seed(uint32_t seed);      // the order of warps, blocks and streams; 0 is ascending
void ptxsim_set_threads(uint32_t count);  // host threads that run blocks; 0 means all cores
void ptxsim_set_max_instructions(uint64_t count);  // of one block, before it counts as hung

// The text of the first failure since ptxsim_reset; "" if there was none. And what kernels printed.
const char* ptxsim_report(void);
const char* ptxsim_output(void);

// Forgets the failure, pending work, launches, printed text and the trace; memory stays.
void ptxsim_reset(void);

// A region of an allocation that its owner hands out anew: its bytes count as never written.
void ptxsim_forget(uint64_t address, size_t bytes);

typedef struct {
  const char* kernel;
  uint32_t grid[3], block[3];
  uint32_t static_shared, dynamic_shared;
  uint64_t instructions;         // of warps
  uint64_t thread_instructions;  // of the threads that took part in them
  uint64_t branches, divergent_branches;
  uint64_t barriers;                           // by warps
  uint64_t global_loads, global_load_sectors;  // requests of warps; 32-byte sectors
  uint64_t global_stores, global_store_sectors;
  uint64_t shared_requests, shared_waves;  // without bank conflicts as few as can be:
  uint64_t shared_conflicts;               // the waves beyond those
  uint64_t atomics;
} ptxsim_launch;

// The launches that ran since ptxsim_reset or ptxsim_clear_launches (the newest 65536 of them).
size_t ptxsim_launches(const ptxsim_launch** launches);
void ptxsim_clear_launches(void);

typedef struct {
  uint64_t address;  // in shared and local memory: from its beginning
  uint32_t block, thread;
  uint32_t ptx_line, line, file;  // of the CUDA source, 0 if unknown
  uint8_t bytes, space, kind,
      racing;  // space: 0 global, 1 shared, 2 local; kind: 0 read, 1 write, 2 atomic
} ptxsim_access;

size_t ptxsim_trace(const ptxsim_access** accesses);

// Instructions that the decoder knows, one per line; a star before those that were decoded.
const char* ptxsim_instructions(void);

#ifdef __cplusplus
}
#endif
