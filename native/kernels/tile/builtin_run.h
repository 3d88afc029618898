// Built-in programs (../builtin.h) run: one loop over the row per phase, with all values of an
// element in registers. The compiler unrolls the list of instructions; what the interpreter decides
// at run time (machine.h) is decided here by `if constexpr`, in the same order of operations.
//
// Full values are float32. Rows lie in memory without gaps between their elements.
#pragma once

#include <tuple>
#include <utility>

#include "builtin_schedule.h"
#include "kernels/elementwise/blocks.h"
#include "kernels/math/formulas.h"
#include "kernels/reduce/reductions.h"
#include "kernels/stream.h"
#include "tile.h"
#include "tile/builtin.h"

namespace needle::NEEDLE_ISA {

struct BuiltinCall {
  const TileProgram& program;
  char* const* data;            // of the operands, outputs first,
  const int64_t* row_bytes;     // and from one row to the next
  int64_t length;               // of a row
  int64_t block;                // elements of a row that are reduced in float
  float* kept = nullptr;        // n_kept rows for each that is computed at a time
  void* const* sums = nullptr;  // of columns, by instruction
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

// Short rows go through each phase four at a time, if what they read, write and keep is less than
// this: a core begins the next row's pass while the lanes of this one's sums still meet, and adds
// up the columns of four rows before it stores them. Layer norm of 256 x 384 on one thread takes 24
// us instead of 27, its gradient 33 instead of 39; with rows of 1024 and more there is no gain.
constexpr int64_t kTogetherBytes = 48 << 10;

// Computes rows first to last - 1.
struct Builtin {
  void (*run)(const BuiltinCall& call, int64_t first, int64_t last) = nullptr;
  int n_kept = 0;  // rows of values that a later pass needs
};

namespace {

template <int number, class... Types>
using PickType = std::tuple_element_t<number, std::tuple<Types...>>;

// What a loop over the instructions goes through. Loops over all of them, most of which would then
// do nothing, took twice as long to compile.
enum class Lines : uint8_t {
  scalar,   // values that are computed once,
  row,      // or once for each row, when a phase begins
  outlast,  // row values that are known after a phase, and needed in a later one
  reduced,  // in this phase
  ending,   // the same, and gathers
  needed,   // in each pass over the row: full values, reductions, sums of columns
  column,   // sums of columns
  result,   // stores of row values
  first,    // loads that the first pass needs
};

// All of it is inlined into run(), where its objects never have an address: what they hold stays in
// registers, whatever is stored through pointers.
template <const auto& kCode>
class BuiltinRows {
 public:
  static constexpr Builtin entry() { return {run, kSchedule.n_kept}; }

 private:
  static void run(const BuiltinCall& call, int64_t first, int64_t last) {
    const BuiltinRows rows(call);
    const StreamEnd end{rows.streamed_ != 0};
    Row scalars;
    for (int k = 0; k < kOperands; ++k) scalars.at[k] = call.data[k];
    rows.template compute_all<Lines::scalar, 0>(scalars);
    for (int64_t row = first, count; row < last; row += count) {
      count = rows_together(call, row - first, last - first);
      rows.run_rows(scalars, row, count);
    }
  }

  static constexpr int kCount = static_cast<int>(std::size(kCode));
  static constexpr Schedule kSchedule{kCode};
  static constexpr int kLastPhase = kSchedule.n_phases - 1;

  static constexpr bool is_among(Lines lines, int phase, int n) {
    const Line& i = kCode[n];
    const bool is_now = kSchedule.phase[n] == phase;
    switch (lines) {
      case Lines::scalar: return i.kind == ValueKind::scalar && is_now && !ends_phase(i);
      case Lines::row: return i.kind == ValueKind::row && is_now && !ends_phase(i);
      case Lines::outlast:
        return i.kind == ValueKind::row && kSchedule.phase[n] <= phase &&
               kSchedule.last_use[n] > phase;
      case Lines::reduced: return i.opcode == Opcode::row_reduce && is_now;
      case Lines::ending: return ends_phase(i) && is_now;
      case Lines::needed: return kSchedule.is_needed[phase][n];
      case Lines::column: return i.opcode == Opcode::column_sum;
      case Lines::result: return i.opcode == Opcode::store && i.kind == ValueKind::row;
      case Lines::first: return i.opcode == Opcode::load && kSchedule.is_needed[0][n];
    }
  }

  // Their numbers, as a sequence; the list begins with how many they are.
  template <Lines lines, int phase>
  static constexpr std::array<int, kCount + 1> list_numbers() {
    std::array<int, kCount + 1> list{};
    for (int n = 0; n < kCount; ++n) {
      if (is_among(lines, phase, n)) list[static_cast<size_t>(++list[0])] = n;
    }
    return list;
  }
  template <Lines lines, int phase, int... k>
  static auto sequence_of(std::integer_sequence<int, k...>) {
    constexpr auto list = list_numbers<lines, phase>();
    return std::integer_sequence<int, list[k + 1]...>{};
  }
  template <Lines lines, int phase>
  using Numbers = decltype(sequence_of<lines, phase>(
      std::make_integer_sequence<int, list_numbers<lines, phase>()[0]>{}));

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
  using Type = PickType<static_cast<int>(compute_type(kCode[n].dtype)), float, double, int32_t,
                        int64_t, bool_t>;

  using Narrow = char[kCount][8];  // row and scalar values

  // A row in each operand, and what is known of it.
  struct Row {
    char* at[kOperands];
    const char* next[kOperands];  // the row that follows the rows of this turn
    float* kept;
    alignas(8) Narrow narrow;
  };

  NEEDLE_INLINE explicit BuiltinRows(const BuiltinCall& call)
      : program_(call.program),
        row_bytes_(call.row_bytes),
        length_(call.length),
        block_(call.block),
        kept_(call.kept),
        sums_(call.sums),
        adds_pairs_(call.tile >= kRowsAtOnce),
        streamed_(can_stream(call) ? call.streamed : 0),
        is_far_(call.is_far) {}

  // Whole vectors, all at multiples of their size, in every row.
  static bool can_stream(const BuiltinCall& call) {
    if (call.length % kLanes<float> != 0) return false;
    for (int k = 0; k < kOutputs; ++k) {
      const auto places =
          reinterpret_cast<uintptr_t>(call.data[k]) | static_cast<uintptr_t>(call.row_bytes[k]);
      if ((call.streamed >> k & 1) != 0 && places % kVecBytes != 0) return false;
    }
    return true;
  }

  // Rows ------------------------------------------------------------------------------------------

  // How many go through the phases together: kRowsAtOnce, or one. The run of rows begins with a
  // tile, whose columns are added up as the interpreter does it: four rows at once, those that are
  // left over one by one.
  static int64_t rows_together(const BuiltinCall& call, int64_t row, int64_t rows) {
    if (kSchedule.n_phases == 1 && kColumns == 0) return 1;
    int64_t left = rows - row;
    if (kColumns > 0 && call.tile >= kRowsAtOnce) {
      left = min_of(left, call.tile - row % call.tile);
    } else if (kRowsAtOnce * call.length * kSchedule.element_bytes() >= kTogetherBytes) {
      return 1;
    }
    return left < kRowsAtOnce ? 1 : kRowsAtOnce;
  }

  NEEDLE_INLINE void run_rows(const Row& scalars, int64_t first, int64_t count) const {
    alignas(8) Narrow known[kRowsAtOnce];
    if (count == 1) {  // its values stay in registers
      Row row = make_row<0>(scalars, first, 0, 1, known[0]);
      for_each(Phases{}, [&](auto phase) NEEDLE_INLINE_LAMBDA { run_phase<phase>(row); });
      return;
    }
    for_each(Phases{}, [&](auto phase) NEEDLE_INLINE_LAMBDA {
      if constexpr (phase == kLastPhase && kColumns > 0) {
        run_last_at_once(scalars, first, known);
      } else {
        for (int64_t r = 0; r < kRowsAtOnce; ++r) {
          Row row = make_row<phase>(scalars, first, r, kRowsAtOnce, known[r]);
          run_phase<phase>(row);
          remember<phase>(row, known[r]);
        }
      }
    });
  }
  using Phases = std::make_integer_sequence<int, kSchedule.n_phases>;

  // Row first + r of `count` rows, with what phases before this one found.
  template <int phase>
  NEEDLE_INLINE Row make_row(const Row& scalars, int64_t first, int64_t r, int64_t count,
                             const Narrow& known) const {
    Row row;
    for (int k = 0; k < kOperands; ++k) {
      row.at[k] = scalars.at[k] + (first + r) * row_bytes_[k];
      row.next[k] = row.at[k] + count * row_bytes_[k];
    }
    row.kept = kept_ + r * kSchedule.n_kept * length_;
    for_each(Numbers<Lines::scalar, 0>{},
             [&](auto n) NEEDLE_INLINE_LAMBDA { set<n>(row, narrow<n>(scalars)); });
    for_each(Numbers<Lines::outlast, phase - 1>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      __builtin_memcpy(row.narrow[n], known[n], sizeof(Type<n>));
    });
    return row;
  }

  template <int phase>
  NEEDLE_INLINE static void remember(const Row& row, Narrow& known) {
    for_each(Numbers<Lines::outlast, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      __builtin_memcpy(known[n], row.narrow[n], sizeof(Type<n>));
    });
  }

  // Calls body(n) for each number of a sequence, a constant.
  template <class F, int... n>
  NEEDLE_INLINE static void for_each(std::integer_sequence<int, n...>, const F& body) {
    (body(std::integral_constant<int, n>{}), ...);
  }

  template <int phase>
  NEEDLE_INLINE void run_phase(Row& row) const {
    compute_all<Lines::row, phase>(row);
    double totals[kCount];
    for_each(Numbers<Lines::reduced, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      totals[n] = static_cast<double>(Reduction<n>::template identity<float>());
    });
    for (int64_t start = 0; start < length_; start += block_) {
      run_block<phase>(row, start, min_of(block_, length_ - start), totals);
    }
    for_each(Numbers<Lines::ending, phase>{},
             [&](auto n) NEEDLE_INLINE_LAMBDA { finish<n>(row, totals[n]); });
    if constexpr (phase == kLastPhase) finish_row(row);
  }

  NEEDLE_INLINE void finish_row(Row& row) const {
    compute_all<Lines::row, kSchedule.n_phases>(row);
    for_each(Numbers<Lines::result, 0>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      constexpr Line i = kCode[n];
      *place<Type<n>>(row, i.operand) = cast<Type<n>>(narrow<i.args[0]>(row));
    });
  }

  // The last phase, which adds to sums of columns, of kRowsAtOnce rows.
  NEEDLE_INLINE void run_last_at_once(const Row& scalars, int64_t first,
                                      const Narrow (&known)[kRowsAtOnce]) const {
    Row rows[kRowsAtOnce];
#pragma GCC unroll 4
    for (int r = 0; r < kRowsAtOnce; ++r) {
      rows[r] = make_row<kLastPhase>(scalars, first, r, kRowsAtOnce, known[r]);
      compute_all<Lines::row, kLastPhase>(rows[r]);
    }
    for_each_vec<float>(length_, [&](int64_t j, const auto& lanes) NEEDLE_INLINE_LAMBDA {
      Vec<float> parts[kCount][kRowsAtOnce];
#pragma GCC unroll 4
      for (int r = 0; r < kRowsAtOnce; ++r) {
        Partial none;
        run_vec<kLastPhase>(rows[r], j, lanes, none, 0,
                            [&](auto n, Vec<float> x) NEEDLE_INLINE_LAMBDA { parts[n][r] = x; });
      }
      for_each(Numbers<Lines::column, 0>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
        static_assert(kRowsAtOnce == 4);
        const auto& [a, b, c, d] = parts[n];
        float* const to = static_cast<float*>(sums_[n]) + j;
        const Vec<float> sum = lanes.load(to);
        lanes.store(to, adds_pairs_ ? sum + ((a + b) + (c + d)) : sum + a + b + c + d);
      });
    });
#pragma GCC unroll 4
    for (int r = 0; r < kRowsAtOnce; ++r) finish_row(rows[r]);
  }

  // Row and scalar values -------------------------------------------------------------------------

  template <int n>
  NEEDLE_INLINE static Type<n> narrow(const Row& row) {
    Type<n> value;
    __builtin_memcpy(&value, row.narrow[n], sizeof value);
    return value;
  }

  template <int n>
  NEEDLE_INLINE static void set(Row& row, Type<n> value) {
    __builtin_memcpy(row.narrow[n], &value, sizeof value);
  }

  // Those that are known when the phase begins.
  template <Lines lines, int phase>
  NEEDLE_INLINE void compute_all(Row& row) const {
    for_each(Numbers<lines, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA { compute_narrow<n>(row); });
  }

  template <int n>
  NEEDLE_INLINE void compute_narrow(Row& row) const {
    constexpr Line i = kCode[n];
    constexpr int a = i.args[0], b = i.args[1], c = i.args[2];
    if constexpr (i.opcode == Opcode::load) {
      set<n>(row, *place<Type<n>>(row, kOutputs + i.operand));
    } else if constexpr (i.opcode == Opcode::constant) {
      const int64_t payload = program_.code[n].payload;
      constexpr bool is_real = is_floating<Type<n>>;
      set<n>(row,
             is_real ? cast<Type<n>>(__builtin_bit_cast(double, payload)) : cast<Type<n>>(payload));
    } else if constexpr (i.opcode == Opcode::row_size) {
      set<n>(row, cast<Type<n>>(length_));
    } else if constexpr (i.opcode == Opcode::cast) {
      set<n>(row, cast<Type<n>>(narrow<a>(row)));
    } else if constexpr (i.opcode == Opcode::select) {
      set<n>(row, narrow<a>(row).byte != 0 ? narrow<b>(row) : narrow<c>(row));
    } else if constexpr (i.opcode == Opcode::unary) {
      constexpr auto op = static_cast<UnaryOp>(i.function);
      set<n>(row, as_value<n>(Formula<op>::apply(held(narrow<a>(row)))));
    } else if constexpr (i.opcode == Opcode::binary) {
      constexpr auto op = static_cast<BinaryOp>(i.function);
      set<n>(row, as_value<n>(Formula<op>::apply(held(narrow<a>(row)), held(narrow<b>(row)))));
    }
  }

  template <int n, class T>
  NEEDLE_INLINE static Type<n> as_value(T result) {
    if constexpr (is_same<Type<n>, bool_t>)
      return {static_cast<uint8_t>(result)};
    else
      return static_cast<Type<n>>(result);
  }

  // An operand at the row's first element.
  template <class T>
  NEEDLE_INLINE static T* place(const Row& row, int operand) {
    return reinterpret_cast<T*>(row.at[operand]);
  }

  // Reductions ------------------------------------------------------------------------------------

  template <int n>
  using Reduction = ReductionOf<static_cast<ReduceOp>(kCode[n].function)>;
  template <int n>
  using TotalOf = typename Reduction<n>::template Total<float>;

  template <int n>
  NEEDLE_INLINE void finish(Row& row, double total) const {
    constexpr Line i = kCode[n];
    if constexpr (i.opcode == Opcode::row_reduce) {
      set<n>(row, static_cast<float>(total));
    } else {
      constexpr int a = i.args[0], keep = kSchedule.keep[a];
      static_assert(kCode[a].opcode == Opcode::load || keep >= 0);
      const auto at = static_cast<int64_t>(narrow<i.args[1]>(row));
      const float* x = row.kept + keep * length_;
      if constexpr (keep < 0) x = place<float>(row, kOutputs + kCode[a].operand);
      set<n>(row, at >= 0 && at < length_ ? x[at] : 0.0f);
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
      found |= is_among(Lines::reduced, phase, n);
    }
    return found;
  }
  static constexpr bool is_long(uint8_t function) {
    const auto op = static_cast<UnaryOp>(function);
    return op != UnaryOp::square && op != UnaryOp::negative && op != UnaryOp::abs;
  }

  // One pass over a block.
  template <int phase>
  NEEDLE_INLINE void run_block(Row& row, int64_t start, int64_t size, double* totals) const {
    Partial partial;
    for_each(Numbers<Lines::reduced, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      for (auto& sum : partial[n]) sum = splat(Reduction<n>::template identity<float>());
    });
    int64_t done = 0;
    if constexpr (reduces_in_groups<phase>()) done = run_groups<phase>(row, start, size, partial);
    for_each_vec<float>(size - done, [&](int64_t j, const auto& lanes) NEEDLE_INLINE_LAMBDA {
      const int64_t at = start + done + j;
      run_vec<phase>(row, at, lanes, partial, j / kLanes<float> % kPartial,
                     [&](auto n, Vec<float> x) NEEDLE_INLINE_LAMBDA {
                       float* const sum = static_cast<float*>(sums_[n]) + at;
                       lanes.store(sum, lanes.load(sum) + x);
                     });
    });
    for_each(Numbers<Lines::reduced, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      const auto whole = static_cast<TotalOf<n>>(meet<Reduction<n>, float>(partial[n]));
      totals[n] = Reduction<n>::apply(static_cast<TotalOf<n>>(totals[n]), whole);
    });
  }

  // As many vectors at a time as there are partial reductions, which stay in registers: layer norm
  // of 256 x 384 took 44 us without and 32 us with it, on one thread. Gives the number of elements.
  template <int phase>
  NEEDLE_INLINE int64_t run_groups(Row& row, int64_t start, int64_t size, Partial& partial) const {
    constexpr int64_t kGroup = kPartial * kLanes<float>;
    static_assert(kColumns == 0 || phase != kLastPhase);
    Partial sums;
    copy_partial<phase>(sums, partial);
    int64_t j = 0;
    for (; j + kGroup <= size; j += kGroup) {
#pragma GCC unroll 16
      for (int v = 0; v < kPartial; ++v) {
        run_vec<phase>(row, start + j + v * kLanes<float>, WholeVec<float>{}, sums, v,
                       [](auto, Vec<float>) {});
      }
    }
    copy_partial<phase>(partial, sums);
    return j;
  }

  template <int phase>
  NEEDLE_INLINE static void copy_partial(Partial& to, const Partial& from) {
    for_each(Numbers<Lines::reduced, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      for (int v = 0; v < kPartial; ++v) to[n][v] = from[n][v];
    });
  }

  // The elements of a vector at a place of the row, reduced into the v-th partial reductions, and
  // given to add_to_column(n, x) for each sum of columns.
  template <int phase, class Lanes, class F>
  NEEDLE_INLINE void run_vec(const Row& row, int64_t at, const Lanes& lanes, Partial& partial,
                             int64_t v, const F& add_to_column) const {
    Floats values[kCount];
    if (phase == 1 && is_far_) ask_for_next_row(row, at);
    for_each(Numbers<Lines::needed, phase>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      constexpr int a = kCode[n].args[0];
      if constexpr (kCode[n].opcode == Opcode::row_reduce) {
        const auto identity = splat(Reduction<n>::template identity<float>());
        const Vec<float> x = lanes.merge(values[a].lanes, identity);
        partial[n][v] = Reduction<n>::apply(partial[n][v], x);
      } else if constexpr (kCode[n].opcode == Opcode::column_sum) {
        add_to_column(n, values[a].lanes);
      } else {
        compute<phase, n>(row, values, at, lanes);
      }
    });
  }

  // What the first pass over a later row will read at a place.
  NEEDLE_INLINE void ask_for_next_row(const Row& row, int64_t at) const {
    for_each(Numbers<Lines::first, 0>{}, [&](auto n) NEEDLE_INLINE_LAMBDA {
      constexpr int k = kOutputs + kCode[n].operand;
      __builtin_prefetch(row.next[k] + at * static_cast<int64_t>(sizeof(float)));
    });
  }

  template <int phase, int n, class Lanes>
  NEEDLE_INLINE void compute(const Row& row, Floats* values, int64_t j, const Lanes& lanes) const {
    constexpr Line i = kCode[n];
    constexpr int a = i.args[0], b = i.args[1], c = i.args[2];
    if constexpr (kSchedule.keep[n] >= 0 && kSchedule.phase[n] < phase) {
      values[n] = lanes.load(kept_at<n>(row, j));
      return;
    }
    if constexpr (i.opcode == Opcode::load) {
      const float* const x = place<float>(row, kOutputs + i.operand) + j;
      if constexpr (phase == 0 && kPrefetches) __builtin_prefetch(x + kAhead);
      values[n] = lanes.load(x);
    } else if constexpr (i.opcode == Opcode::unary) {
      values[n] = Formula<static_cast<UnaryOp>(i.function)>::apply(values[a]);
    } else if constexpr (i.opcode == Opcode::binary) {
      values[n] = Formula<static_cast<BinaryOp>(i.function)>::apply(value<a>(row, values),
                                                                    value<b>(row, values));
    } else if constexpr (i.opcode == Opcode::cast) {
      static_assert(i.dtype == DType::f32);
      values[n] = values[a];
    } else if constexpr (i.opcode == Opcode::select) {
      values[n] = narrow<a>(row).byte != 0 ? value<b>(row, values) : value<c>(row, values);
    } else if constexpr (i.opcode == Opcode::add_at) {
      values[n] = values[a];
      const auto lane = static_cast<int64_t>(narrow<b>(row)) - j;
      if (lane >= 0 && lane < kLanes<float>) [[unlikely]]
        values[n] = added_at(values[a], static_cast<int32_t>(lane), narrow<c>(row));
    } else if constexpr (i.opcode == Opcode::store) {
      float* const to = place<float>(row, i.operand) + j;
      if ((streamed_ >> i.operand & 1) != 0) {
        stream(to, value<a>(row, values).lanes);
      } else {
        lanes.store(to, value<a>(row, values).lanes);
      }
    }
    if constexpr (kSchedule.keep[n] >= 0) lanes.store(kept_at<n>(row, j), values[n].lanes);
  }

  template <int n>
  NEEDLE_INLINE float* kept_at(const Row& row, int64_t j) const {
    return row.kept + kSchedule.keep[n] * length_ + j;
  }

  template <int n>
  NEEDLE_INLINE static Floats value(const Row& row, const Floats* values) {
    if constexpr (kCode[n].kind == ValueKind::full)
      return values[n];
    else
      return narrow<n>(row);
  }

  const TileProgram& program_;
  const int64_t* const row_bytes_;
  const int64_t length_, block_;
  float* const kept_;
  void* const* const sums_;
  const bool adds_pairs_;  // of rows to the columns, as the interpreter does in tiles of many rows
  const uint32_t streamed_;
  const bool is_far_;
};

}  // namespace

extern const Builtin kBuiltin[];  // by number; nullptr where the interpreter is as quick

}  // namespace needle::NEEDLE_ISA
