// Frozen programs (../frozen.h) run: one loop over the row per phase, with all values of an element
// in registers. The compiler unrolls the list of instructions; what the interpreter decides at run
// time (machine.h) is decided here by `if constexpr`, in the same order of operations.
//
// Full values are float32. Rows lie in memory without gaps between their elements.
#pragma once

#include <utility>

#include "../frozen.h"
#include "blocks.h"
#include "formulas.h"
#include "frozen_schedule.h"
#include "reduce_ops.h"
#include "stream.h"
#include "tile.h"

#define NEEDLE_INLINE_LAMBDA __attribute__((always_inline))

namespace needle {
namespace NEEDLE_ISA {

struct FrozenCall {
  const TileProgram& program;
  char* const* data;            // of the operands, outputs first,
  const int64_t* row_bytes;     // and from one row to the next
  int64_t length;               // of a row
  int64_t block;                // elements of a row that are reduced in float
  float* kept = nullptr;        // n_kept rows
  void* const* sums = nullptr;  // of columns, by instruction
  float* held = nullptr;        // for each of them, kRowsAtOnce - 1 rows that wait to be added
  int64_t tile = 1;             // rows whose columns are added up as the interpreter adds a tile's
  uint32_t streamed = 0;        // outputs, as bits
  bool is_far = false;          // Are rows beyond a core's own cache? The next one is asked for.
};

// Elements that are asked for while those so far in front of them are computed: the hardware's own
// prefetching ends at each page. Layer norm of 4096 x 1024 took 1.4 ms without and 1.2 ms with it.
// A single pass over many arrays is as quick as memory without: Adam of 10 million 5.3 ms, 5.9 with
// it. After the first pass a row is at hand and memory would be idle, so the second pass asks for
// the next row: softmax of 4096 x 1024 0.92 ms without and 0.81 with it, of 640 x 10000 2.2 and
// 1.6.
constexpr int64_t kAhead = 512;

// Computes rows first to last - 1.
struct Frozen {
  void (*run)(const FrozenCall& call, int64_t first, int64_t last) = nullptr;
  int n_kept = 0;  // rows of values that a later pass needs
};

namespace {

template <ComputeType type>
struct TypeOf;
template <>
struct TypeOf<ComputeType::f32> : Tag<float> {};
template <>
struct TypeOf<ComputeType::f64> : Tag<double> {};
template <>
struct TypeOf<ComputeType::i32> : Tag<int32_t> {};
template <>
struct TypeOf<ComputeType::i64> : Tag<int64_t> {};
template <>
struct TypeOf<ComputeType::b8> : Tag<bool_t> {};

template <ReduceOp op>
struct ReductionOf : Tag<Sum> {};
template <>
struct ReductionOf<ReduceOp::max> : Tag<Max> {};
template <>
struct ReductionOf<ReduceOp::min> : Tag<Min> {};

// All of it is inlined into run(), where the object never has an address: what it holds stays in
// registers, whatever is stored through pointers.
template <const auto& kCode>
class FrozenRows {
 public:
  static constexpr Frozen entry() { return {run, kSchedule.n_kept}; }

 private:
  static void run(const FrozenCall& call, int64_t first, int64_t last) {
    FrozenRows rows(call);
    for (int k = 0; k < kOperands; ++k) rows.at_[k] = call.data[k] + first * call.row_bytes[k];
    rows.template each<ValueKind::scalar, 0>();
    for (int64_t row = first; row < last; ++row) {
      if constexpr (kColumns > 0) rows.turn_ = turn_of(call, row - first, last - first);
      rows.run_row();
      for (int k = 0; k < kOperands; ++k) rows.at_[k] += call.row_bytes[k];
    }
  }

  static constexpr int kCount = static_cast<int>(std::size(kCode));
  static constexpr Schedule kSchedule{kCode};
  using All = std::make_integer_sequence<int, kCount>;

  static constexpr int count_of(Opcode opcode) {
    int found = 0;
    for (const Line& i : kCode) found += i.opcode == opcode ? 1 : 0;
    return found;
  }
  static constexpr int kOutputs = count_of(Opcode::store);
  static constexpr int kColumns = count_of(Opcode::column_sum);
  static constexpr int kInputs = count_of(Opcode::load), kOperands = kOutputs + kInputs;
  static constexpr bool kPrefetches = kSchedule.n_phases > 1 || kInputs <= 2;

  template <int n>
  using Type = typename TypeOf<compute_type(kCode[n].dtype)>::type;

  NEEDLE_INLINE explicit FrozenRows(const FrozenCall& call)
      : program_(call.program),
        row_bytes_(call.row_bytes),
        length_(call.length),
        block_(call.block),
        kept_(call.kept),
        sums_(call.sums),
        held_(call.held),
        streamed_(can_stream(call) ? call.streamed : 0),
        is_far_(call.is_far),
        end_{streamed_ != 0} {}

  // Whole vectors, all at multiples of their size, in every row.
  static bool can_stream(const FrozenCall& call) {
    if (call.length % kLanes<float> != 0) return false;
    for (int k = 0; k < kOutputs; ++k) {
      const auto places =
          reinterpret_cast<uintptr_t>(call.data[k]) | static_cast<uintptr_t>(call.row_bytes[k]);
      if ((call.streamed >> k & 1) != 0 && places % kVecBytes != 0) return false;
    }
    return true;
  }

  NEEDLE_INLINE void run_row() {
    run_phases(std::make_integer_sequence<int, kSchedule.n_phases>{});
    each<ValueKind::row, kSchedule.n_phases>();
    for_all([this](auto n) NEEDLE_INLINE_LAMBDA { store_row_value<n>(); });
  }

  // Calls body(n) for the number of each instruction, a constant.
  template <class F>
  NEEDLE_INLINE static void for_all(const F& body) {
    for_numbers(body, All{});
  }
  template <class F, int... n>
  NEEDLE_INLINE static void for_numbers(const F& body, std::integer_sequence<int, n...>) {
    (body(std::integral_constant<int, n>{}), ...);
  }

  template <int... phase>
  NEEDLE_INLINE void run_phases(std::integer_sequence<int, phase...>) {
    (run_phase<phase>(), ...);
  }

  template <int phase>
  NEEDLE_INLINE void run_phase() {
    each<ValueKind::row, phase>();
    for_all([this](auto n) NEEDLE_INLINE_LAMBDA { start<phase, n>(); });
    for (int64_t start = 0; start < length_; start += block_) {
      run_block<phase>(start, min_of(block_, length_ - start));
    }
    for_all([this](auto n) NEEDLE_INLINE_LAMBDA { finish<phase, n>(); });
  }

  // Row and scalar values -------------------------------------------------------------------------

  template <int n>
  NEEDLE_INLINE Type<n> narrow() const {
    Type<n> value;
    __builtin_memcpy(&value, narrow_[n], sizeof value);
    return value;
  }

  template <int n>
  NEEDLE_INLINE void set(Type<n> value) {
    __builtin_memcpy(narrow_[n], &value, sizeof value);
  }

  // Those of a kind that are known when the phase begins.
  template <ValueKind kind, int phase>
  NEEDLE_INLINE void each() {
    for_all([this](auto n) NEEDLE_INLINE_LAMBDA { compute_narrow<kind, phase, n>(); });
  }

  template <ValueKind kind, int phase, int n>
  NEEDLE_INLINE void compute_narrow() {
    constexpr Line i = kCode[n];
    if constexpr (i.kind == kind && kSchedule.phase[n] == phase && !ends_phase(i)) {
      constexpr int a = i.args[0], b = i.args[1], c = i.args[2];
      if constexpr (i.opcode == Opcode::load) {
        set<n>(*place<Type<n>>(kOutputs + i.operand));
      } else if constexpr (i.opcode == Opcode::constant) {
        const int64_t payload = program_.code[n].payload;
        constexpr bool is_real = is_floating<Type<n>>;
        set<n>(is_real ? cast<Type<n>>(__builtin_bit_cast(double, payload))
                       : cast<Type<n>>(payload));
      } else if constexpr (i.opcode == Opcode::row_size) {
        set<n>(cast<Type<n>>(length_));
      } else if constexpr (i.opcode == Opcode::cast) {
        set<n>(cast<Type<n>>(narrow<a>()));
      } else if constexpr (i.opcode == Opcode::select) {
        set<n>(narrow<a>().byte != 0 ? narrow<b>() : narrow<c>());
      } else if constexpr (i.opcode == Opcode::unary) {
        set<n>(result_of<n>(apply_unary<static_cast<UnaryOp>(i.function)>(narrow<a>())));
      } else if constexpr (i.opcode == Opcode::binary) {
        set<n>(result_of<n>(
            apply_binary<static_cast<BinaryOp>(i.function)>(narrow<a>(), narrow<b>())));
      }
    }
  }

  template <int n, class T>
  NEEDLE_INLINE static Type<n> result_of(T value) {
    if constexpr (std::is_same_v<T, bool>)
      return make_bool(value);
    else
      return value;
  }

  template <int n>
  NEEDLE_INLINE void store_row_value() {
    constexpr Line i = kCode[n];
    if constexpr (i.opcode == Opcode::store && i.kind == ValueKind::row) {
      *place<Type<n>>(i.operand) = cast<Type<n>>(narrow<i.args[0]>());
    }
  }

  // An operand at the row's first element.
  template <class T>
  NEEDLE_INLINE T* place(int operand) const {
    return reinterpret_cast<T*>(at_[operand]);
  }

  // Reductions ------------------------------------------------------------------------------------

  template <int n>
  using Reduction = typename ReductionOf<static_cast<ReduceOp>(kCode[n].function)>::type;
  template <int n>
  using TotalOf = typename Reduction<n>::template Total<float>;

  template <int phase, int n>
  static constexpr bool is_reduced =
      kCode[n].opcode == Opcode::row_reduce && kSchedule.phase[n] == phase;

  template <int phase, int n>
  NEEDLE_INLINE void start() {
    if constexpr (is_reduced<phase, n>) {
      totals_[n] = static_cast<double>(Reduction<n>::template identity<float>());
    }
  }

  template <int phase, int n>
  NEEDLE_INLINE void finish() {
    constexpr Line i = kCode[n];
    if constexpr (is_reduced<phase, n>) {
      set<n>(static_cast<float>(totals_[n]));
    } else if constexpr (i.opcode == Opcode::gather && kSchedule.phase[n] == phase) {
      constexpr int a = i.args[0], keep = kSchedule.keep[a];
      static_assert(kCode[a].opcode == Opcode::load || keep >= 0);
      const auto at = static_cast<int64_t>(narrow<i.args[1]>());
      const float* x = kept_ + keep * length_;
      if constexpr (keep < 0) x = place<float>(kOutputs + kCode[a].operand);
      set<n>(at >= 0 && at < length_ ? x[at] : 0.0f);
    }
  }

  // Full values -----------------------------------------------------------------------------------

  static constexpr int kPartial = 256 / kVecBytes;  // as in reduce_run

  using Partial = Vec<float>[kCount][kPartial];  // of each instruction's reduction

  // Is there a reduction in this phase, and room for several vectors at a time? Always with the 32
  // registers of AVX-512: cross entropy of 256 x 384 took 57 us, and takes 53. Else only where
  // there is little to compute: then a pass takes as long as its partial reductions need to go to
  // memory and back.
  static constexpr bool kHasRoom = kVecBytes == 64;
  template <int phase>
  static constexpr bool reduces_in_groups() {
    bool found = false;
    for (int n = 0; n < kCount; ++n) {
      const bool is_unary = kSchedule.is_needed[phase][n] && kCode[n].opcode == Opcode::unary;
      if (!kHasRoom && is_unary && is_long(kCode[n].function)) return false;
      found |= kCode[n].opcode == Opcode::row_reduce && kSchedule.phase[n] == phase;
    }
    return found;
  }
  static constexpr bool is_long(uint8_t function) {
    const auto op = static_cast<UnaryOp>(function);
    return op != UnaryOp::square && op != UnaryOp::negative && op != UnaryOp::abs;
  }

  // One pass over a block.
  template <int phase>
  NEEDLE_INLINE void run_block(int64_t start, int64_t size) {
    Partial partial;
    for_all([&](auto number) NEEDLE_INLINE_LAMBDA {
      constexpr int n = number;
      if constexpr (is_reduced<phase, n>) {
        for (auto& sum : partial[n]) sum = splat(Reduction<n>::template identity<float>());
      }
    });
    const int64_t done = reduces_in_groups<phase>() ? run_groups<phase>(start, size, partial) : 0;
    for_each_vec<float>(size - done, [&](int64_t j, const auto& lanes) NEEDLE_INLINE_LAMBDA {
      run_vec<phase>(start + done + j, lanes, partial, j / kLanes<float> % kPartial);
    });
    for_all([&](auto number) NEEDLE_INLINE_LAMBDA {
      constexpr int n = number;
      if constexpr (is_reduced<phase, n>) {
        const auto whole = static_cast<TotalOf<n>>(meet<Reduction<n>, float>(partial[n]));
        totals_[n] = Reduction<n>::apply(static_cast<TotalOf<n>>(totals_[n]), whole);
      }
    });
  }

  // As many vectors at a time as there are partial reductions, which stay in registers: layer norm
  // of 256 x 384 took 44 us without and 32 us with it, on one thread. Gives the number of elements.
  template <int phase>
  NEEDLE_INLINE int64_t run_groups(int64_t start, int64_t size, Partial& partial) {
    constexpr int64_t kGroup = kPartial * kLanes<float>;
    Partial sums;
    copy_partial<phase>(sums, partial);
    int64_t j = 0;
    for (; j + kGroup <= size; j += kGroup) {
      for_numbers(
          [&](auto v) NEEDLE_INLINE_LAMBDA {
            run_vec<phase>(start + j + v * kLanes<float>, WholeVec<float>{}, sums, v);
          },
          std::make_integer_sequence<int, kPartial>{});
    }
    copy_partial<phase>(partial, sums);
    return j;
  }

  template <int phase>
  NEEDLE_INLINE static void copy_partial(Partial& to, const Partial& from) {
    for_all([&](auto number) NEEDLE_INLINE_LAMBDA {
      constexpr int n = number;
      if constexpr (is_reduced<phase, n>) {
        for (int v = 0; v < kPartial; ++v) to[n][v] = from[n][v];
      }
    });
  }

  // The elements of a vector at a place of the row, reduced into the v-th partial reductions.
  template <int phase, class Lanes>
  NEEDLE_INLINE void run_vec(int64_t at, const Lanes& lanes, Partial& partial, int64_t v) {
    Floats values[kCount];
    if (phase == 1 && is_far_) ask_for_next_row(at);
    for_all([&](auto number) NEEDLE_INLINE_LAMBDA {
      constexpr int n = number;
      if constexpr (kSchedule.is_needed[phase][n]) compute<phase, n>(values, at, lanes);
      if constexpr (is_reduced<phase, n>) {
        const auto identity = splat(Reduction<n>::template identity<float>());
        const Vec<float> x = lanes.merge(values[kCode[n].args[0]].lanes, identity);
        partial[n][v] = Reduction<n>::apply(partial[n][v], x);
      }
    });
  }

  // What the next row's first pass will read at a place.
  NEEDLE_INLINE void ask_for_next_row(int64_t at) const {
    for_all([&](auto number) NEEDLE_INLINE_LAMBDA {
      constexpr Line i = kCode[number];
      if constexpr (i.opcode == Opcode::load && kSchedule.is_needed[0][number]) {
        constexpr int k = kOutputs + i.operand;
        __builtin_prefetch(at_[k] + row_bytes_[k] + at * static_cast<int64_t>(sizeof(float)));
      }
    });
  }

  template <int phase, int n, class Lanes>
  NEEDLE_INLINE void compute(Floats* values, int64_t j, const Lanes& lanes) {
    constexpr Line i = kCode[n];
    constexpr int a = i.args[0], b = i.args[1], c = i.args[2];
    if constexpr (kSchedule.keep[n] >= 0 && kSchedule.phase[n] < phase) {
      values[n] = lanes.load(kept_at<n>(j));
      return;
    }
    if constexpr (i.opcode == Opcode::load) {
      const float* const x = place<float>(kOutputs + i.operand) + j;
      if constexpr (phase == 0 && kPrefetches) __builtin_prefetch(x + kAhead);
      values[n] = lanes.load(x);
    } else if constexpr (i.opcode == Opcode::unary) {
      values[n] = apply_unary<static_cast<UnaryOp>(i.function)>(values[a]);
    } else if constexpr (i.opcode == Opcode::binary) {
      values[n] =
          apply_binary<static_cast<BinaryOp>(i.function)>(value<a>(values), value<b>(values));
    } else if constexpr (i.opcode == Opcode::cast) {
      static_assert(i.dtype == DType::f32);
      values[n] = values[a];
    } else if constexpr (i.opcode == Opcode::select) {
      values[n] = narrow<a>().byte != 0 ? value<b>(values) : value<c>(values);
    } else if constexpr (i.opcode == Opcode::add_at) {
      values[n] = values[a];
      const auto lane = static_cast<int64_t>(narrow<b>()) - j;
      if (lane >= 0 && lane < kLanes<float>) [[unlikely]]
        values[n] = added_at(values[a], static_cast<int32_t>(lane), narrow<c>());
    } else if constexpr (i.opcode == Opcode::column_sum) {
      add_to_column<n>(j, lanes, values[a].lanes);
    } else if constexpr (i.opcode == Opcode::store) {
      float* const to = place<float>(i.operand) + j;
      if ((streamed_ >> i.operand & 1) != 0) {
        stream(to, value<a>(values).lanes);
      } else {
        lanes.store(to, value<a>(values).lanes);
      }
    }
    if constexpr (kSchedule.keep[n] >= 0) lanes.store(kept_at<n>(j), values[n].lanes);
  }

  // Sums of columns. Rows of a tile are added four at a time, those that are left over one by one.

  static constexpr int64_t kLastTurn = kRowsAtOnce - 1, kAlone = kRowsAtOnce;

  // Which of four rows a row is, or kAlone. A run of rows begins with a tile.
  static int64_t turn_of(const FrozenCall& call, int64_t row, int64_t rows) {
    if (call.tile < kRowsAtOnce) return kAlone;
    const int64_t place = row % call.tile, in_tile = min_of(call.tile, rows - row + place);
    return place < in_tile / kRowsAtOnce * kRowsAtOnce ? place % kRowsAtOnce : kAlone;
  }

  template <int n, class Lanes>
  NEEDLE_INLINE void add_to_column(int64_t j, const Lanes& lanes, Vec<float> x) {
    constexpr int column = column_number(n);
    float* const held = held_ + column * kLastTurn * length_ + j;
    if (turn_ < kLastTurn) return lanes.store(held + turn_ * length_, x);
    if (turn_ == kLastTurn) {
      const Vec<float> low = lanes.load(held) + lanes.load(held + length_);
      x = low + (lanes.load(held + 2 * length_) + x);
    }
    float* const sum = static_cast<float*>(sums_[n]) + j;
    lanes.store(sum, lanes.load(sum) + x);
  }

  static constexpr int column_number(int instruction) {
    int found = 0;
    for (int n = 0; n < instruction; ++n) found += kCode[n].opcode == Opcode::column_sum ? 1 : 0;
    return found;
  }

  template <int n>
  NEEDLE_INLINE float* kept_at(int64_t j) const {
    return kept_ + kSchedule.keep[n] * length_ + j;
  }

  template <int n>
  NEEDLE_INLINE Floats value(const Floats* values) const {
    if constexpr (kCode[n].kind == ValueKind::full)
      return values[n];
    else
      return narrow<n>();
  }

  const TileProgram& program_;
  const int64_t* const row_bytes_;
  const int64_t length_, block_;
  float* const kept_;
  void* const* const sums_;
  float* const held_;
  int64_t turn_ = kAlone;
  const uint32_t streamed_;
  const bool is_far_;
  const StreamEnd end_;
  char* at_[kOperands];  // the row in each operand
  alignas(8) char narrow_[kCount][8];
  double totals_[kCount];
};

}  // namespace

extern const Frozen kFrozen[];  // by number; nullptr where the interpreter is as quick

}  // namespace NEEDLE_ISA
}  // namespace needle
