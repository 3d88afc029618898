// Memory of the device, kept for reuse: the driver's own calls wait for all work.
//
// Memory comes from the driver in segments, which are cut into blocks. A freed block joins its free
// neighbours and serves what its stream asks for next: a stream's work runs in order, so nothing
// needs to wait. A block that other streams have used is kept back until they have passed a mark.
#pragma once

#include "driver.h"

namespace needle::cuda {

struct Block;

Block* take_block(size_t bytes);  // for the stream in use; throws AllocationError
void give_back(Block* block);
Address address_of(const Block* block);

// Another stream works on the block, too.
void note_use(Block* block, Stream* stream);

struct MemoryStats {
  size_t live = 0, peak = 0;  // bytes in blocks that are in use
  size_t reserved = 0;        // bytes in segments
  size_t segments = 0, retries = 0;
};
MemoryStats memory_stats();
void reset_peak_memory();
void release_kept_memory();  // segments without a block in use go back to the driver

// Off: every block is an allocation of its own, so that a simulator sees where each one ends.
void set_caching(bool on);

}  // namespace needle::cuda
