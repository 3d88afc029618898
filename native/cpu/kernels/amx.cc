// Matrix products on AMX tiles: bfloat16, and float32 split into bfloat16 terms.
//
// A tile operation adds to 16 x 16 floats the product of 16 x 32 and 32 x 16 bfloat16, in 16
// cycles: 16 times what AVX-512 multiplies in float32. A float has 24 significant bits, a bfloat16
// 8, so
//
//     x = x1 + x2 + x3,   x1 = bf16(x),  x2 = bf16(x - x1),  x3 = bf16(x - x1 - x2)     exactly,
//     a b = a1 b1 + (a1 b2 + a2 b1) + (a1 b3 + a2 b2 + a3 b1) + O(2^-24 a b),
//
// as |x2| <= 2^-8 |x| and |x3| <= 2^-16 |x|. Products of bfloat16 are exact in float32. Within a
// block of k the small products are added first, so that each of the large ones is rounded once, as
// in a float32 product: six products for "highest", the first three for "high", one for "medium".
//
// Tiles take numbers below 2^-126 as zero, and the terms of a number above 2^127 may overflow. So
// packing notes the range of the operands, and a part of C whose operands could come near these
// limits is computed by the float32 kernels instead (see is_safe).
#include <immintrin.h>

#include "entries.h"
#include "product.h"

#pragma GCC push_options
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int64_t kSide = 16, kStep = 32;  // lines of a tile; k in a tile operation
constexpr int64_t kPanel = 2 * kSide;      // rows of A or columns of B in a panel: two tiles
constexpr int64_t kTileSize = kSide * kStep, kPanelStep = 2 * kTileSize;  // in bfloat16
constexpr int kMostTerms = 3;

constexpr int64_t kRegion = 2048;  // rows, columns, k that are packed at once
constexpr int64_t kAmxTileRows = 128, kAmxTileCols = 256;  // a task's part of C

// Which terms are multiplied, small products first.
struct Term {
  int a, b;
};
constexpr Term kSixProducts[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
constexpr Term kThreeProducts[] = {{0, 1}, {1, 0}, {0, 0}};
constexpr Term kOneProduct[] = {{0, 0}};

struct Split {
  int terms;  // bfloat16 per number
  const Term* products;
  int count;
  int64_t depth;  // k per block: a panel of B stays in the first-level cache
};
constexpr Split kHighest = {3, kSixProducts, 6, 192};
constexpr Split kHigh = {2, kThreeProducts, 3, 256};
constexpr Split kSingle = {1, kOneProduct, 1, 512};

// The smallest and largest magnitudes of a set of numbers, as bits of floats; zeros are left out.
struct Range {
  __m512i low = _mm512_set1_epi32(-1), high = _mm512_setzero_si512();

  [[gnu::always_inline]] void add(__m512 x) {
    const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    high = _mm512_max_epu32(high, size);
    low = _mm512_min_epu32(low, _mm512_sub_epi32(size, _mm512_set1_epi32(1)));
  }
};

// Exponents of the smallest and the largest number; no numbers but zeros give 0, 0.
struct Exponents {
  int low = 0, high = 0;

  void add(const Exponents& other) {
    low = low < other.low ? low : other.low;
    high = high > other.high ? high : other.high;
  }
};

inline Exponents exponents_of(const Range& range) {
  uint32_t lows[16], highs[16], low = ~0u, high = 0;
  _mm512_storeu_si512(lows, range.low);
  _mm512_storeu_si512(highs, range.high);
  for (int i = 0; i < 16; ++i) {
    low = lows[i] < low ? lows[i] : low;
    high = highs[i] > high ? highs[i] : high;
  }
  if (high == 0) return {};
  return {static_cast<int>((low + 1) >> 23) - 127, static_cast<int>(high >> 23) - 127};
}

using Terms = bf16_t* [kMostTerms];  // where each term of a tile goes

[[gnu::always_inline]] inline __m512 as_floats(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// A line of 32 numbers along k: the row of a tile of A.
[[gnu::always_inline]] inline void split_line(__m512 x0, __m512 x1, int terms, const Terms& to,
                                              int64_t at, Range& range) {
  range.add(x0);
  range.add(x1);
  for (int t = 0; t < terms; ++t) {
    const __m512i halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x1, x0));
    _mm512_storeu_si512(to[t] + at, halves);
    x0 = _mm512_sub_ps(x0, as_floats(_mm512_castsi512_si256(halves)));
    x1 = _mm512_sub_ps(x1, as_floats(_mm512_extracti64x4_epi64(halves, 1)));
  }
}

// 16 numbers at k and at k + 1, as pairs: the row of a tile of B.
[[gnu::always_inline]] inline void split_pairs(__m512 x0, __m512 x1, int terms, const Terms& to,
                                               int64_t at, Range& range) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  range.add(x0);
  range.add(x1);
  for (int t = 0; t < terms; ++t) {
    const __m512i even = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x0)));
    const __m512i odd = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x1)));
    const __m512i pairs = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
    _mm512_storeu_si512(to[t] + at, pairs);
    x0 = _mm512_sub_ps(x0, _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)));
    x1 = _mm512_sub_ps(x1, _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)));
  }
}

[[gnu::always_inline]] inline __m512 load_floats(const float* from) {
  return _mm512_loadu_ps(from);
}
[[gnu::always_inline]] inline __m512 load_floats(const bf16_t* from) {
  return as_floats(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// Packs an operand of E, float or bf16_t: lines are rows of A or columns of B.
template <class E>
class Packer {
 public:
  // Strides in bytes. Tiles hold k along their lines (A), or pairs of k across them (B).
  Packer(const char* data, int64_t line_stride, int64_t k_stride, bool wants_pairs, int terms)
      : data_(data),
        line_stride_(line_stride),
        k_stride_(k_stride),
        wants_pairs_(wants_pairs),
        terms_(terms) {}

  // `count` lines, up to kPanel, from k0 on: for each kStep and term two tiles, zeros beyond.
  Exponents pack(bf16_t* to, int64_t line, int64_t count, int64_t k0, int64_t depth) const {
    Range range;
    const int64_t steps = ceil_div(depth, kStep);
    for (int64_t s = 0; s < steps; ++s) {
      for (int64_t half = 0; half < 2; ++half) {
        Terms tiles;
        for (int t = 0; t < terms_; ++t) {
          tiles[t] = to + (s * terms_ + t) * kPanelStep + half * kTileSize;
        }
        const int64_t lines = max_of(0, min_of(kSide, count - half * kSide));
        const char* const from =
            data_ + (line + half * kSide) * line_stride_ + (k0 + s * kStep) * k_stride_;
        pack_tile(tiles, from, lines, min_of(kStep, depth - s * kStep), range);
      }
    }
    return exponents_of(range);
  }

 private:
  static constexpr int64_t kSize = sizeof(E);

  void pack_tile(const Terms& tiles, const char* from, int64_t lines, int64_t depth,
                 Range& range) const {
    const bool is_whole = lines == kSide && depth == kStep;
    if (is_whole && k_stride_ == kSize) return along_k(tiles, from, line_stride_, range);
    if (is_whole && line_stride_ == kSize) return across_k(tiles, from, range);
    E block[kSide][kStep] = {};
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t k = 0; k < depth; ++k) {
        __builtin_memcpy(&block[i][k], from + i * line_stride_ + k * k_stride_, kSize);
      }
    }
    along_k(tiles, reinterpret_cast<const char*>(block), kStep * kSize, range);
  }

  void along_k(const Terms& tiles, const char* from, int64_t line_stride, Range& range) const {
    alignas(64) bf16_t buffer[kMostTerms][kTileSize];
    Terms to;
    for (int t = 0; t < terms_; ++t) to[t] = wants_pairs_ ? buffer[t] : tiles[t];
    for (int64_t i = 0; i < kSide; ++i) {
      const E* const line = reinterpret_cast<const E*>(from + i * line_stride);
      split_line(load_floats(line), load_floats(line + kSide), terms_, to, i * kStep, range);
    }
    if (wants_pairs_) transpose_tiles(tiles, to);
  }

  void across_k(const Terms& tiles, const char* from, Range& range) const {
    alignas(64) bf16_t buffer[kMostTerms][kTileSize];
    Terms to;
    for (int t = 0; t < terms_; ++t) to[t] = wants_pairs_ ? tiles[t] : buffer[t];
    for (int64_t k = 0; k < kStep; k += 2) {
      const char* const at = from + k * k_stride_;
      split_pairs(load_floats(reinterpret_cast<const E*>(at)),
                  load_floats(reinterpret_cast<const E*>(at + k_stride_)), terms_, to, k * kSide,
                  range);
    }
    if (!wants_pairs_) transpose_tiles(tiles, to);
  }

  // 16 x 16 pairs of bfloat16, moved as floats.
  void transpose_tiles(const Terms& tiles, const Terms& from) const {
    for (int t = 0; t < terms_; ++t) {
      transpose(reinterpret_cast<float*>(tiles[t]), kSide, reinterpret_cast<const char*>(from[t]),
                kSide * 4, kSide, kSide);
    }
  }

  const char* data_;
  int64_t line_stride_, k_stride_;
  bool wants_pairs_;
  int terms_;
};

// The shapes of the tiles, as the instructions take them.
struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Not a local: GCC takes the instruction to read its first eight bytes only.
constexpr TileShapes kShapes = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// All eight tiles have 16 rows of 64 bytes, in this thread, for as long as this lives. Shapes that
// another library has set are put back: it may rely on them.
class TileConfiguration {
 public:
  TileConfiguration() {
    _tile_storeconfig(&before_);
    _tile_loadconfig(&kShapes);
  }
  ~TileConfiguration() { before_.palette == 0 ? _tile_release() : _tile_loadconfig(&before_); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;

 private:
  TileShapes before_;
};

// Finished sums of a block (kPanel x kPanel, compact) that are still to be stored in C or added.
struct Finished {
  const float* sums;
  float* c;
  int64_t c_row, rows = 0, cols;
  bool accumulate;

  [[gnu::always_inline]] void store_row(int64_t i) const {
    for (int64_t j = 0; j < cols; j += kSide) {
      const Lanes<float> lanes(static_cast<int>(min_of(kSide, cols - j)));
      const Vec<float> sum = load(sums + i * kPanel + j);
      float* const at = c + i * c_row + j;
      lanes.store(at, accumulate ? sum + lanes.load(at) : sum);
    }
  }
};

// sums (kPanel x kPanel, compact) = the products of the terms of two panels, `steps` * kStep deep.
// Meanwhile the vector units, which have nothing to do, bring the block before to C.
inline void multiply_terms(const Split& split, const bf16_t* a, const bf16_t* b, int64_t steps,
                           float* sums, const Finished& before) {
  constexpr int64_t kLine = kStep * sizeof(bf16_t), kSumLine = kPanel * sizeof(float);
  const int64_t next = split.terms * kPanelStep;
  const int64_t rows_each = ceil_div(kPanel, split.count * steps);
  int64_t row = 0;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int p = 0; p < split.count; ++p) {
    const bf16_t* a_at = a + split.products[p].a * kPanelStep;
    const bf16_t* b_at = b + split.products[p].b * kPanelStep;
    for (int64_t s = 0; s < steps; ++s, a_at += next, b_at += next) {
      _tile_loadd(4, a_at, kLine);
      _tile_loadd(6, b_at, kLine);
      _tile_loadd(7, b_at + kTileSize, kLine);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, a_at + kTileSize, kLine);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      const int64_t row_end = min_of(row + rows_each, before.rows);
      for (; row < row_end; ++row) before.store_row(row);
    }
  }
  _tile_stored(0, sums, kSumLine);
  _tile_stored(1, sums + kSide, kSumLine);
  _tile_stored(2, sums + kSide * kPanel, kSumLine);
  _tile_stored(3, sums + kSide * kPanel + kSide, kSumLine);
}

// One product of m x k and k x n whose elements are E.
template <class E>
class AmxGemm {
 public:
  AmxGemm(const Product<float>& product, const Split& split) : p_(product), split_(split) {}

  void run() {
    const int64_t rows = min_of(p_.m, kRegion), cols = min_of(p_.n, kRegion);
    const int64_t depth = ceil_div(min_of(p_.k, kRegion), kStep) * kStep;
    const int64_t a_panels = ceil_div(rows, kPanel), b_panels = ceil_div(cols, kPanel);
    const int64_t packed = (a_panels + b_panels) * kPanel * depth * split_.terms;
    const int64_t tiles = ceil_div(rows, kAmxTileRows) * ceil_div(cols, kAmxTileCols);
    const int64_t sums = p_.out.is_plain ? 0 : rows * cols;
    const Workspace workspace(
        packed * static_cast<int64_t>(sizeof(bf16_t)) + sums * static_cast<int64_t>(sizeof(float)) +
        (a_panels + b_panels) * static_cast<int64_t>(sizeof(Exponents)) + tiles);
    sums_ = workspace.as<float>();
    packed_ = reinterpret_cast<bf16_t*>(sums_ + sums);
    ranges_ = reinterpret_cast<Exponents*>(packed_ + packed);
    is_unsafe_ = reinterpret_cast<bool*>(ranges_ + a_panels + b_panels);
    for (row0_ = 0; row0_ < p_.m; row0_ += kRegion) {
      rows_ = min_of(kRegion, p_.m - row0_);
      for (col0_ = 0; col0_ < p_.n; col0_ += kRegion) {
        cols_ = min_of(kRegion, p_.n - col0_);
        run_region();
      }
    }
  }

 private:
  void run_region() {
    const int64_t across = ceil_div(cols_, kAmxTileCols);
    const int64_t tiles = ceil_div(rows_, kAmxTileRows) * across;
    __builtin_memset(is_unsafe_, 0, tiles);
    for (k0_ = 0; k0_ < p_.k; k0_ += kRegion) {
      depth_ = min_of(kRegion, p_.k - k0_);
      pack();
      parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
        const TileConfiguration configuration;
        for (int64_t t = begin; t < end; ++t) {
          if (!is_unsafe_[t]) is_unsafe_[t] = !run_tile(t / across, t % across);
        }
      });
    }
    parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) finish_tile(t / across, t % across, is_unsafe_[t]);
    });
  }

  int64_t panel_size() const { return ceil_div(depth_, kStep) * kPanelStep * split_.terms; }

  void pack() {
    const Packer<E> a(p_.a.data, p_.a.row_stride, p_.a.col_stride, false, split_.terms);
    const Packer<E> b(p_.b.data, p_.b.col_stride, p_.b.row_stride, true, split_.terms);
    const int64_t a_panels = ceil_div(rows_, kPanel), b_panels = ceil_div(cols_, kPanel);
    parallel_for(a_panels + b_panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const bool is_a = p < a_panels;
        const int64_t line = (is_a ? p : p - a_panels) * kPanel, total = is_a ? rows_ : cols_;
        ranges_[p] = (is_a ? a : b)
                         .pack(packed_ + p * panel_size(), (is_a ? row0_ : col0_) + line,
                               min_of(kPanel, total - line), k0_, depth_);
      }
    });
  }

  // May the tiles multiply panels with these exponents? Products below 2^-126 are lost: that is
  // less than half a unit in the last place of the smallest product when this is 2^-101 or more.
  bool is_safe(const Exponents& a, const Exponents& b) const {
    constexpr int kSpare = 3;  // factors of two for the six products of a number
    const int bits = split_.terms == 3 ? 24 : 8 * split_.terms;
    const bool keeps_small =
        a.low + b.low >= -126 + bits + kSpare && a.low >= -126 + bits && b.low >= -126 + bits;
    if (is_same<E, bf16_t>) return keeps_small;
    int length = 0;
    while ((int64_t{1} << length) < p_.k) ++length;
    return keeps_small && a.high < 127 && b.high < 127 && a.high + b.high + 2 + length < 127;
  }

  // False when the tiles cannot compute it.
  bool run_tile(int64_t tile_row, int64_t tile_col) {
    const int64_t row = tile_row * kAmxTileRows, col = tile_col * kAmxTileCols;
    const int64_t row_end = min_of(rows_, row + kAmxTileRows);
    const int64_t col_end = min_of(cols_, col + kAmxTileCols);
    const int64_t b_first = ceil_div(rows_, kPanel);
    Exponents a_range, b_range;
    for (int64_t i = row; i < row_end; i += kPanel) a_range.add(ranges_[i / kPanel]);
    for (int64_t j = col; j < col_end; j += kPanel) b_range.add(ranges_[b_first + j / kPanel]);
    if (!is_safe(a_range, b_range)) return false;
    const int64_t steps = ceil_div(depth_, kStep), step_size = split_.terms * kPanelStep;
    const int64_t most = split_.depth / kStep, block = even_part(steps, most);
    alignas(64) float sums[2][kPanel * kPanel];
    int turn = 0;
    Finished before = {};
    for (int64_t s = 0; s < steps; s += block) {
      for (int64_t j = col; j < col_end; j += kPanel) {
        const bf16_t* const b = packed_ + (b_first + j / kPanel) * panel_size() + s * step_size;
        for (int64_t i = row; i < row_end; i += kPanel) {
          const bf16_t* const a = packed_ + i / kPanel * panel_size() + s * step_size;
          multiply_terms(split_, a, b, min_of(block, steps - s), sums[turn], before);
          before = {sums[turn],
                    c_at(i, j),
                    c_row(),
                    min_of(kPanel, row_end - i),
                    min_of(kPanel, col_end - j),
                    k0_ + s > 0};
          turn = 1 - turn;
        }
      }
    }
    for (int64_t i = 0; i < before.rows; ++i) before.store_row(i);
    return true;
  }

  void finish_tile(int64_t tile_row, int64_t tile_col, bool is_unsafe) {
    const int64_t row = tile_row * kAmxTileRows, col = tile_col * kAmxTileCols;
    const int64_t rows = min_of(kAmxTileRows, rows_ - row);
    const int64_t cols = min_of(kAmxTileCols, cols_ - col);
    if (is_unsafe) {
      multiply(p_.part(row0_ + row, rows, col0_ + col, cols));
    } else if (!p_.out.is_plain) {
      for (int64_t i = row; i < row + rows; ++i) {
        p_.out.store(p_.out.at(row0_ + i, col0_ + col), p_.out.col_stride, c_at(i, col), cols);
      }
    }
  }

  int64_t c_row() const { return p_.out.is_plain ? p_.out.row_stride / 4 : cols_; }
  float* c_at(int64_t i, int64_t j) const {
    if (!p_.out.is_plain) return sums_ + i * cols_ + j;
    return reinterpret_cast<float*>(p_.out.at(row0_ + i, col0_ + j));
  }

  const Product<float> p_;
  const Split split_;
  float* sums_;
  bf16_t* packed_;                                  // panels of A, then of B
  Exponents* ranges_;                               // of each
  bool* is_unsafe_;                                 // for the tiles of the region
  int64_t row0_, rows_, col0_, cols_, k0_, depth_;  // the region at work
};

// Smaller matrices do not fill tiles, or do not pay for the split. With two threads six products
// were slower than AVX-512 at 512 cubed (158 GFLOP/s, not 243) and in the step of a GPT, whose
// products have 2^28 to 2^30 multiplications (1031 ms, not 729).
constexpr int64_t kLeastSide = 64;
constexpr int64_t kLeastWork = int64_t{1} << 24, kLeastForSix = int64_t{1} << 31;

template <class E>
void multiply_amx(const Product<float>& p) {
  const MatmulPrecision precision = matmul_precision();
  const bool one = is_same<E, bf16_t> || precision == MatmulPrecision::medium;
  const int64_t least = one || precision == MatmulPrecision::high ? kLeastWork : kLeastForSix;
  if (min_of(min_of(p.m, p.n), p.k) < kLeastSide || p.m * p.n * p.k < least) return multiply(p);
  const bool by_columns = length_of(p.out.row_stride) < length_of(p.out.col_stride);
  Product<float> q = by_columns ? p.transposed() : p;
  q.out.is_plain = q.out.is_plain && q.out.col_stride == static_cast<int64_t>(sizeof(float));
  AmxGemm<E>(q, one ? kSingle : precision == MatmulPrecision::high ? kHigh : kHighest).run();
}

}  // namespace

void matmul_amx(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return;
  const bool has_tiles = out.dtype == DType::f32 || out.dtype == DType::bf16;
  if (!has_tiles || b.dtype != out.dtype) return matmul(out, a, b);
  const Unaliased left(a, out), right(b, out);
  if (out.dtype == DType::f32) {
    multiply_views<float>(out, left.view(), right.view(), multiply_amx<float>);
  } else {
    multiply_views<bf16_t>(out, left.view(), right.view(), multiply_amx<bf16_t>);
  }
}

}  // namespace NEEDLE_ISA
}  // namespace needle

#pragma GCC pop_options
