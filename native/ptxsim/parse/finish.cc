#include "finish.h"

#include <algorithm>
#include <unordered_set>

#include "../exec/handlers.h"

namespace ptxsim {
namespace {

// Slots are numbers of bytes; instructions without that source have slot 0, which is one like any
// other here: it only makes the answer "read" a little too often.
std::unordered_set<u32> slots_that_are_read(const Kernel& kernel) {
  std::unordered_set<u32> read;
  for (const Instruction& i : kernel.code) {
    for (const u32 slot : i.src) read.insert(slot);
    if (i.guard != kNone) read.insert(i.guard);
  }
  return read;
}

// Optimizers widen three loads to one of four elements, whose last nobody reads.
void mark_used_elements(Kernel& kernel) {
  const std::unordered_set<u32> read = slots_that_are_read(kernel);
  for (Instruction& i : kernel.code) {
    if (i.run != run_load || i.count == 1) continue;
    for (u32 k = 0; k < i.count; ++k)
      if (i.dst[k] == kNone || !read.contains(i.dst[k])) i.used &= static_cast<u8>(~(1u << k));
  }
}

// Registers that live at once, in program order: from the first mention of a slot to its last,
// through loops whose branch back lies behind it.
u32 estimate_registers(const Kernel& kernel) {
  const s32 size = static_cast<s32>(kernel.code.size());
  std::unordered_set<u32> fixed;
  for (const Constant& c : kernel.constants) fixed.insert(c.slot);
  for (const u32 slot : kernel.special) fixed.insert(slot);
  struct Life {
    s32 first, last;
  };
  std::vector<std::pair<u32, Life>> lives;
  std::vector<s32> index(kernel.register_bytes / 32 + 1, -1);
  const auto mention = [&](u32 slot, s32 pc) {
    if (slot == kNone || slot >= kernel.register_bytes || fixed.contains(slot)) return;
    s32& at = index[slot / 32];
    if (at < 0) {
      at = static_cast<s32>(lives.size());
      lives.push_back({slot, {pc, pc}});
    }
    lives[static_cast<size_t>(at)].second.last = pc;
  };
  for (s32 pc = 0; pc < size; ++pc) {
    for (const u32 slot : kernel.code[static_cast<size_t>(pc)].src)
      if (slot != 0) mention(slot, pc);
    for (const u32 slot : kernel.code[static_cast<size_t>(pc)].dst) mention(slot, pc);
  }
  for (s32 pc = 0; pc < size; ++pc) {
    const Instruction& i = kernel.code[static_cast<size_t>(pc)];
    if (i.kind != Kind::branch || i.target > pc) continue;
    for (auto& [slot, life] : lives)
      if (life.first < i.target && life.last >= i.target && life.last < pc) life.last = pc;
  }
  std::vector<s32> change(static_cast<size_t>(size) + 1, 0);
  std::vector<u32> slots;
  for (const auto& [slot, life] : lives) slots.push_back(slot);
  std::sort(slots.begin(), slots.end());
  for (const auto& [slot, life] : lives) {
    const auto next = std::upper_bound(slots.begin(), slots.end(), slot);
    const u32 bytes = (next == slots.end() ? kernel.register_bytes : *next) - slot;
    const s32 words = bytes >= bytes_of(Width::wide) ? 2 : bytes >= bytes_of(Width::word) ? 1 : 0;
    change[static_cast<size_t>(life.first)] += words;
    change[static_cast<size_t>(life.last)] -= words;
  }
  s32 live = 0, most = 0;
  for (const s32 c : change) most = std::max(most, live += c);
  return static_cast<u32>(std::clamp(most + 8, 16, 255));
}

}  // namespace

void finish_kernel(Kernel& kernel) {
  Instruction end;  // a kernel may end without ret
  end.kind = Kind::exit;
  if (kernel.texts.empty()) kernel.texts.push_back("ret;");
  end.text = static_cast<u32>(kernel.texts.size()) - 1;
  kernel.code.push_back(end);
  mark_used_elements(kernel);
  kernel.registers = estimate_registers(kernel);
}

}  // namespace ptxsim
