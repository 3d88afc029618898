#include "amx_probe.h"

#if defined(__linux__) && defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace needle {
namespace {

bool announces_amx() {
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16Tiles = 1u << 22, kTiles = 1u << 24;
  if ((d & kBf16Tiles) == 0 || (d & kTiles) == 0) return false;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}

bool get_permission() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

// Three tiles of 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
constexpr TileShapes kShapes = {1, 0, {}, {64, 64, 64}, {16, 16, 16}};

// 32 products of 1 and 2 in each element.
[[gnu::noinline, gnu::target("amx-tile,amx-bf16")]] bool multiplies_tiles() {
  alignas(64) uint16_t ones[512], twos[512];
  alignas(64) float sums[256] = {};
  for (int i = 0; i < 512; ++i) {
    ones[i] = 0x3f80;
    twos[i] = 0x4000;
  }
  _tile_loadconfig(&kShapes);
  _tile_zero(0);
  _tile_loadd(1, ones, 64);
  _tile_loadd(2, twos, 64);
  _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, sums, 64);
  _tile_release();
  return sums[0] == 64.0f && sums[255] == 64.0f;
}

sigjmp_buf after_fault;
void on_fault(int) { siglongjmp(after_fault, 1); }

bool multiplies_tiles_guarded() {
  struct sigaction guard = {}, before;
  guard.sa_handler = on_fault;
  sigemptyset(&guard.sa_mask);
  if (sigaction(SIGILL, &guard, &before) != 0) return false;
  volatile bool works = false;
  if (sigsetjmp(after_fault, 1) == 0) works = multiplies_tiles();
  sigaction(SIGILL, &before, nullptr);
  return works;
}

}  // namespace

bool has_amx() {
  static const bool found = announces_amx() && get_permission() && multiplies_tiles_guarded();
  return found;
}

}  // namespace needle

#else

namespace needle {
bool has_amx() { return false; }
}  // namespace needle

#endif
