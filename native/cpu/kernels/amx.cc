// Matrix products on AMX tiles: bfloat16, and float32 split into bfloat16 terms.
//
// A product of tiles takes 16 cycles: 16 times what AVX-512 multiplies in float32. With numbers as
// sums of three terms (amx_pack.h),
//
//     a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + O(2^-24 a b):
//
// six products for "highest", the first three for "high", one for "medium". Products of bfloat16
// are exact in float32, and a tile is rounded once for 32 of them. Within a block of k the small
// products are added first, to sums that are small as well; a1 b1 comes last.
//
//     for each task (a part of C)              its rows of A and columns of B are packed by itself
//       for each block of k                    A's rows stay in the second-level cache,
//         for each panel of B's columns        a panel of B in the first,
//           for each panel of A's rows         and 32 x 32 sums in four tiles
//
// Tiles take numbers below 2^-126 as zero, and the terms of a number above 2^127 may overflow. So
// packing notes the range of the operands, and a task whose operands could come near these limits
// is computed by the float32 kernels instead (see is_safe). bfloat16 products are as tiles make
// them.
#include "amx_pack.h"
#include "entries.h"
#include "product.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// Which terms are multiplied: first the small products, and from each to the next one operand stays
// in its tiles.
struct TermPair {
  int a, b;
};
template <int kTerms>
constexpr TermPair kProducts[] = {{0, 0}};
template <>
constexpr TermPair kProducts<2>[] = {{0, 1}, {1, 0}, {0, 0}};
template <>
constexpr TermPair kProducts<3>[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};

// k per block: a panel of A and one of B fit the first-level cache, of 48 KiB, beside their sums.
template <int kTerms>
constexpr int64_t kBlockDepth = 320;
template <>
constexpr int64_t kBlockDepth<2> = 160;
template <>
constexpr int64_t kBlockDepth<3> = 96;

// A task's part of C: sums and rows of A take 1.3 MB of a second-level cache of 2 MB. Packing costs
// about 1/6 of the products of 512 x 512 sums, more of smaller parts.
constexpr int64_t kTaskSide = 512;
constexpr int64_t kLargeTask = int64_t{1} << 27;  // multiplications, if there are few tasks
constexpr int64_t kFewTasks = 4, kManyTasks = 16;

// Products kFirst to kLast of a step of k, added to tiles 0 to 3. With the first ones, the next
// step of A, which follows in memory, comes from the second-level cache to the first.
template <int kTerms, int kFirst, int kLast>
[[gnu::always_inline]] inline void multiply_step(const bf16_t* a, const bf16_t* b) {
  constexpr int64_t kRow = kStep * sizeof(bf16_t), kNext = kTerms * kPanelStep;
  constexpr int64_t kLines = kFirst == 0 ? kNext / kStep / (kLast + 1) : 0;  // with each product
#pragma GCC unroll 6
  for (int p = kFirst; p <= kLast; ++p) {
    const TermPair now = kProducts<kTerms>[p], before = kProducts<kTerms>[p == 0 ? 0 : p - 1];
    const bf16_t* const a_tiles = a + now.a * kPanelStep;
    const bf16_t* const b_tiles = b + now.b * kPanelStep;
    for (int64_t line = p * kLines; line < (p + 1) * kLines; ++line) {
      __builtin_prefetch(a + kNext + line * kStep, 0, 3);
    }
    const bool is_new_a = p == kFirst || now.a != before.a;
    if (p == kFirst || now.b != before.b) {
      tile_load<6>(b_tiles, kRow);
      if (is_new_a) tile_load<4>(a_tiles, kRow);
      tile_multiply<0, 4, 6>();
      if (is_new_a) tile_load<5>(a_tiles + kTileSize, kRow);
      tile_multiply<2, 5, 6>();
      tile_load<7>(b_tiles + kTileSize, kRow);
      tile_multiply<1, 4, 7>();
      tile_multiply<3, 5, 7>();
    } else {
      tile_load<4>(a_tiles, kRow);
      tile_multiply<0, 4, 6>();
      tile_multiply<1, 4, 7>();
      tile_load<5>(a_tiles + kTileSize, kRow);
      tile_multiply<2, 5, 6>();
      tile_multiply<3, 5, 7>();
    }
  }
}

// Part of C that takes the sums of two panels: rows c_row floats apart.
struct Block {
  float* c;
  int64_t c_row, rows, cols;  // at most kPanel
  bool accumulate;
};

// The products of two panels, `steps` * kStep deep.
template <int kTerms>
inline void multiply_panels(const bf16_t* a, const bf16_t* b, int64_t steps, const Block& to) {
  constexpr int64_t kNext = kTerms * kPanelStep;
  constexpr int kLast = sizeof kProducts<kTerms> / sizeof(TermPair) - 1;
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
  for (int64_t s = 0; s < steps; ++s) {
    multiply_step<kTerms, 0, (kTerms > 1 ? kLast - 1 : 0)>(a + s * kNext, b + s * kNext);
  }
  for (int64_t s = 0; kTerms > 1 && s < steps; ++s) {
    multiply_step<kTerms, kLast, kLast>(a + s * kNext, b + s * kNext);
  }
  alignas(64) float sums[kPanel][kPanel];
  constexpr int64_t kRow = kPanel * sizeof(float);
  tile_store<0>(&sums[0][0], kRow);
  tile_store<1>(&sums[0][kSide], kRow);
  tile_store<2>(&sums[kSide][0], kRow);
  tile_store<3>(&sums[kSide][kSide], kRow);
  for (int64_t i = 0; i < to.rows; ++i) {
    for (int64_t j = 0; j < to.cols; j += kSide) {
      const Lanes<float> lanes(static_cast<int>(min_of(kSide, to.cols - j)));
      const Vec<float> sum = load(&sums[i][j]);
      float* const at = to.c + i * to.c_row + j;
      lanes.store(at, to.accumulate ? sum + lanes.load(at) : sum);
    }
  }
}

// One product of m x k and k x n whose elements are E.
template <class E, int kTerms>
class TileGemm {
 public:
  // An epilogue is run on finished tasks; without a plain result it alone takes the sums.
  TileGemm(const Product<float>& product, const Epilogue* epilogue)
      : p_(product),
        epilogue_(epilogue),
        a_(p_.a.data, p_.a.row_stride, p_.a.col_stride, false),
        b_(p_.b.data, p_.b.col_stride, p_.b.row_stride, true),
        depth_(even_part(p_.k, kBlockDepth<kTerms>, kStep)) {
    const int64_t work = p_.m * p_.n * p_.k / kLargeTask;
    const int64_t tasks = max_of(kFewTasks, min_of(kManyTasks, work));
    rows_ = even_part(p_.m, kTaskSide, kPanel);
    cols_ = even_part(p_.n, kTaskSide, kPanel);
    while (ceil_div(p_.m, rows_) * ceil_div(p_.n, cols_) < tasks && max_of(rows_, cols_) > kPanel) {
      int64_t& longer = rows_ > cols_ ? rows_ : cols_;
      longer = even_part(longer, longer / 2, kPanel);
    }
  }

  void run() {
    const int64_t across = ceil_div(p_.n, cols_);
    parallel_for(ceil_div(p_.m, rows_) * across, 1, [&](int64_t begin, int64_t end) {
      const TileConfiguration configuration;
      for (int64_t t = begin; t < end; ++t) run_task(t / across * rows_, t % across * cols_);
    });
  }

 private:
  void run_task(int64_t row, int64_t col) {
    const int64_t rows = min_of(rows_, p_.m - row), cols = min_of(cols_, p_.n - col);
    const int64_t sums = p_.out.is_plain ? 0 : rows * cols;
    const int64_t packed = (ceil_div(rows, kPanel) + 1) * panel_size();
    const Workspace workspace(
        packed * static_cast<int64_t>(sizeof(bf16_t)) + sums * static_cast<int64_t>(sizeof(float)),
        kept_by_task);
    bf16_t* const a = workspace.as<bf16_t>();
    Product<float> part = p_.part(row, rows, col, cols);
    if (!p_.out.is_plain) {
      part.out = {reinterpret_cast<char*>(a + packed), cols * 4, 4, nullptr, true};
    }
    if (!multiply_in_tiles(part, row, col, a)) multiply(part);
    finish(part.out, row, rows, col, cols);
  }

  // False when the tiles cannot compute it.
  bool multiply_in_tiles(const Product<float>& part, int64_t row, int64_t col, bf16_t* packed) {
    float* const c = reinterpret_cast<float*>(part.out.data);
    const int64_t c_row = part.out.row_stride / static_cast<int64_t>(sizeof(float));
    const int64_t a_panels = ceil_div(part.m, kPanel);
    bf16_t* const b = packed + a_panels * panel_size();
    for (int64_t k = 0; k < p_.k; k += depth_) {
      const int64_t depth = min_of(depth_, p_.k - k), steps = ceil_div(depth, kStep);
      const int64_t next_depth = min_of(depth_, p_.k - k - depth);
      Exponents range;
      for (int64_t i = 0; i < part.m; i += kPanel) {
        const int64_t lines = min_of(kPanel, part.m - i);
        range.add(a_.pack(packed + i * steps * kTerms * kStep, row + i, lines, k, depth));
      }
      for (int64_t j = 0; j < part.n; j += kPanel) {
        const int64_t width = min_of(kPanel, part.n - j);
        if (!is_safe(range, b_.pack(b, col + j, width, k, depth))) return false;
        if (j + width < part.n) {
          b_.prefetch(col + j + width, min_of(kPanel, part.n - j - width), k, depth);
        }
        if (j < part.m) a_.prefetch(row + j, min_of(kPanel, part.m - j), k + depth, next_depth);
        for (int64_t i = 0; i < part.m; i += kPanel) {
          const bf16_t* const a = packed + i * steps * kTerms * kStep;
          multiply_panels<kTerms>(
              a, b, steps, {c + i * c_row + j, c_row, min_of(kPanel, part.m - i), width, k > 0});
        }
      }
    }
    return true;
  }

  // May the tiles multiply panels with these exponents? Products below 2^-126 are lost: that is
  // less than half a unit in the last place of the smallest product when this is 2^-99 or more.
  bool is_safe(const Exponents& a, const Exponents& b) const {
    if (is_same<E, bf16_t>) return true;
    constexpr int kSpare = 3;  // factors of two for the six products of a number
    constexpr int kLowest = -126 + 8 * kTerms;
    int length = 0;
    while ((int64_t{1} << length) < p_.k) ++length;
    return a.low + b.low >= kLowest + kSpare && a.low >= kLowest && b.low >= kLowest &&
           a.high < 127 && b.high < 127 && a.high + b.high + 2 + length < 127;
  }

  void finish(const Result<float>& c, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    float* const sums = reinterpret_cast<float*>(c.data);
    const int64_t c_row = c.row_stride / static_cast<int64_t>(sizeof(float));
    if (epilogue_ != nullptr) return run_on_block(*epilogue_, sums, c_row, row, rows, col, cols);
    if (p_.out.is_plain) return;
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(p_.out.at(row + i, col), p_.out.col_stride, sums + i * c_row, cols);
    }
  }

  int64_t panel_size() const { return ceil_div(depth_, kStep) * kTerms * kPanelStep; }

  const Product<float> p_;
  const Epilogue* const epilogue_;
  const Packer<E, kTerms> a_, b_;
  const int64_t depth_;  // of blocks
  int64_t rows_, cols_;  // of tasks
};

// Smaller matrices do not fill tiles, or do not pay for the split. Estimated, not measured: at 2^26
// packing takes about a third as long as six products at the peak of tiles, and both together half
// as long as AVX-512 at its own.
constexpr int64_t kLeastSide = 64;
constexpr int64_t kLeastWork = int64_t{1} << 24, kLeastForSix = int64_t{1} << 26;

template <class E>
bool takes_amx(const Product<float>& p) {
  const bool is_six = !is_same<E, bf16_t> && matmul_precision() == MatmulPrecision::highest;
  return min_of(min_of(p.m, p.n), p.k) >= kLeastSide &&
         p.m * p.n * p.k >= (is_six ? kLeastForSix : kLeastWork);
}

template <class E>
void multiply_amx(const Product<float>& p, const Epilogue* epilogue) {
  if constexpr (!is_same<E, bf16_t>) {
    switch (matmul_precision()) {
      case MatmulPrecision::highest: return TileGemm<E, 3>(p, epilogue).run();
      case MatmulPrecision::high: return TileGemm<E, 2>(p, epilogue).run();
      case MatmulPrecision::medium: break;
    }
  }
  TileGemm<E, 1>(p, epilogue).run();
}

template <class E>
void multiply_or_amx(const Product<float>& p) {
  if (!takes_amx<E>(p)) return multiply(p);
  const bool by_columns = length_of(p.out.row_stride) < length_of(p.out.col_stride);
  Product<float> q = by_columns ? p.transposed() : p;
  q.out.is_plain = q.out.is_plain && q.out.col_stride == static_cast<int64_t>(sizeof(float));
  multiply_amx<E>(q, nullptr);
}

}  // namespace

void matmul_amx(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  const bool has_tiles = out.dtype == DType::f32 || out.dtype == DType::bf16;
  if (!has_tiles || b.dtype != out.dtype) return matmul(out, a, b);
  const Unaliased left(a, out), right(b, out);
  if (out.dtype == DType::f32) {
    multiply_views<float>(out, left.view(), right.view(), multiply_or_amx<float>);
  } else {
    multiply_views<bf16_t>(out, left.view(), right.view(), multiply_or_amx<bf16_t>);
  }
}

void matmul_then_amx(const TileProgram& program, const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const ThenOperands all = {program, operands};
  const int holder = all.holder();
  if (all.b().dtype != DType::f32) return matmul_then(program, operands);
  if (!takes_tiles(all, holder)) {
    return all.run_apart([&](const View& product) { matmul_amx(product, all.a(), all.b()); });
  }
  const Product<float> product = product_of(all, holder);
  if (!takes_amx<float>(product)) return matmul_then(program, operands);
  const Epilogue epilogue = all.epilogue();
  multiply_amx<float>(product, &epilogue);
}

// Tiles take a factor that lies in memory.
void matmul_of_amx(const TileProgram& program, const TileProgram* then,
                   const View* const* operands) {
  if (operands[0]->size() == 0) return;
  const OfOperands all = {program, then, operands};
  const View a = left_factor(all);
  const bool is_small = with_tiles(all, a, [&](const Product<float>& p, const Epilogue*) {
    return all.b().dtype != DType::f32 || !takes_amx<float>(p);
  });
  if (is_small) return matmul_of(program, then, operands);
  all.run_apart(a, [&](const View* const* v) {
    then == nullptr ? matmul_amx(*v[0], *v[1], *v[2]) : matmul_then_amx(*then, v);
  });
}

}  // namespace NEEDLE_ISA
}  // namespace needle
