// Gathers the kernels of one instruction set.
#include "entries.h"
#include "tile.h"

#define NEEDLE_TEXT(x) #x
#define NEEDLE_NAME(x) NEEDLE_TEXT(x)

namespace needle {
namespace NEEDLE_ISA {

extern const KernelTable table;

constexpr KernelTable table = {
    .name = NEEDLE_NAME(NEEDLE_ISA),
    .has_unary = has_unary,
    .has_binary = has_binary,
    .copy = copy,
    .unary = unary,
    .binary = binary,
    .where = where,
    .random = random,
    .draw_uniforms = draw_uniforms,
    .run_program = run_program,
    .run_each = run_each,
    .reduce = reduce,
    .arg_reduce = arg_reduce,
    .scan = scan,
    .mix = mix,
    .matmul = matmul,
    .matmul_then = matmul_then,
    .matmul_of = matmul_of,
    .conv = conv,
    .conv_then = conv_then,
    .conv_by_data = conv_by_data,
    .conv_by_weight = conv_by_weight,
    .attention = attention,
    .attention_backward = attention_backward,
    .recurrence = recurrence,
    .recurrence_backward = recurrence_backward,
    .gather = gather,
    .scatter = scatter,
    .argsort = argsort,
    .searchsorted = searchsorted,
    .count_nonzero = count_nonzero,
    .nonzero = nonzero,
};

#if defined(__AVX512F__)
namespace {
constexpr KernelTable with_bf16(KernelTable kernels) {
  kernels.name = "avx512bf16";
  kernels.matmul = matmul_bf16;
  return kernels;
}
}  // namespace

extern const KernelTable bf16_table;
const KernelTable bf16_table = with_bf16(table);
#endif

#if defined(__AVX512F__) || defined(NEEDLE_WIDE)
namespace {
constexpr KernelTable with_amx(KernelTable kernels) {
#if defined(NEEDLE_WIDE)
  kernels.name = "wide-amx";
#else
  kernels.name = "amx";
#endif
  kernels.matmul = matmul_amx;
  kernels.matmul_then = matmul_then_amx;
  kernels.matmul_of = matmul_of_amx;
  return kernels;
}
}  // namespace

extern const KernelTable amx_table;
const KernelTable amx_table = with_amx(table);
#endif

}  // namespace NEEDLE_ISA
}  // namespace needle
