// Races between the threads of a block: who touched a cell of memory last, and in which epoch.
//
// An epoch counts the barriers of the block that came before (upper 20 bits) and the barriers of
// the warp (lower 12). Two accesses of different threads, at least one of them a write, are ordered
// if a barrier of the block lies between them, or one of the warp if both threads are of that warp.
#pragma once

#include "../base.h"

namespace ptxsim {

constexpr u32 kWarpEpochBits = 12;
constexpr u32 kPcBits = 21;

enum class Access : u8 { read, write, atomic };

// A thread of the block (10 bits) and the instruction; the highest bit says that it was an atomic.
struct Who {
  u32 bits = 0;
  static Who of(u32 thread, u32 pc, bool atomic) {
    return {u32{atomic} << 31 | thread << kPcBits | pc};
  }
  u32 thread() const { return bits >> kPcBits & 1023; }
  u32 warp() const { return thread() / kLanes; }
  u32 pc() const { return bits & ((1u << kPcBits) - 1); }
  bool atomic() const { return bits >> 31; }
};

struct Touch {
  Who who;
  u32 epoch = 0;  // 0: nobody
};

// The last write and two reads since the last barrier. Two are enough: if their warps differ, any
// later write conflicts with one of them; if not, a third of the same warp says nothing new.
struct ThreadCell {
  Touch writer, reader, reader2;

  // The earlier access that `now` races with, or null. Notes the access.
  const Touch* access(Touch now, Access kind, bool same_value);

 private:
  static bool races(const Touch& earlier, const Touch& now) {
    if ((earlier.epoch ^ now.epoch) >> kWarpEpochBits) return false;  // a barrier, or nobody
    if (earlier.epoch == 0 || earlier.who.thread() == now.who.thread()) return false;
    return earlier.who.warp() != now.who.warp() || earlier.epoch == now.epoch;
  }
  void note_read(Touch now);
};

inline void ThreadCell::note_read(Touch now) {
  // A third reader of one warp at the same time says nothing new.
  if (reader.epoch == now.epoch && reader2.epoch == now.epoch &&
      reader.who.warp() == now.who.warp() && reader2.who.warp() == now.who.warp())
    return;
  const auto replaceable = [&](const Touch& old) {
    return (old.epoch ^ now.epoch) >> kWarpEpochBits || old.epoch == 0 ||
           old.who.thread() == now.who.thread() ||
           (old.who.warp() == now.who.warp() && old.epoch != now.epoch);
  };
  if (replaceable(reader))
    reader = now;
  else if (replaceable(reader2) || reader.who.warp() == reader2.who.warp())
    reader2 = now;
}

inline const Touch* ThreadCell::access(Touch now, Access kind, bool same_value) {
  const bool both_atomic = kind == Access::atomic && writer.who.atomic();
  const bool both_write_the_same = kind == Access::write && same_value && !writer.who.atomic();
  const Touch* conflict = nullptr;
  if (races(writer, now) && !both_atomic && !both_write_the_same) conflict = &writer;
  if (kind == Access::read) {
    if (conflict == nullptr) note_read(now);
    return conflict;
  }
  if (conflict == nullptr && races(reader, now)) conflict = &reader;
  if (conflict == nullptr && races(reader2, now)) conflict = &reader2;
  if (conflict == nullptr) writer = now;
  return conflict;
}

}  // namespace ptxsim
