// How tile programs cut rows and columns into blocks. Sums are rounded block by block, so these
// numbers are part of a result: the interpreter, the built-in loops and generated C
// (needle/backend/render, which reads them as _native.BLOCKING) all take them from here.
#pragma once

#include <cstdint>

namespace needle {

// A tile: so many bytes of a value in the widest type of its program.
constexpr int64_t kTileBytes = 4096;
// Column sums add up so many rows in one step, and so many in the tile's own type before these sums
// go to the totals, in double.
constexpr int64_t kRowsAtOnce = 4;
constexpr int64_t kStretch = 128;
// The rows of column sums are cut into at most so many pieces, of at least so many elements. So
// many elements are the least work that is handed to another thread: about 3 us of the cheapest
// work, six to ten times what it takes to hand it out. Pieces of 32768 were three of 256 x 384,
// which two threads share badly: x + row took 11.7 us, and 11.0 with these.
constexpr int64_t kMaxPieces = 32;
constexpr int64_t kGrain = 16384;
// Rows that lie side by side in memory, taken at once: of 4-byte elements in a cache line.
constexpr int64_t kLineRows = 16;

}  // namespace needle
