// Chooses the instruction set, finds forms by name, and remembers which were used.
#include "find.h"

#include <map>
#include <mutex>
#include <set>

namespace ptxsim {
namespace {

struct Entry {
  Form form;
  bool used = false;
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> forms;
  std::set<std::string, std::less<>> others;

  Table() {
#ifdef PTXSIM_HAS_AVX2
    if (runs_avx2()) {
      using namespace avx2;
      add({integer_forms(), floating_forms(), half_forms(), convert_forms()});
      return;
    }
#endif
#ifdef PTXSIM_HAS_BASELINE
    using namespace baseline;
    add({integer_forms(), floating_forms(), half_forms(), convert_forms()});
#endif
  }

#ifdef PTXSIM_HAS_BASELINE
  static bool runs_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
#else
  static bool runs_avx2() { return true; }  // as all kernels of this build expect
#endif

  void add(std::initializer_list<Forms> tables) {
    for (const Forms& t : tables)
      for (u64 i = 0; i < t.count; ++i) forms[t.first[i].name] = {t.first[i]};
  }
};

Table& table() {
  static Table* only = new Table;  // used until the process ends
  return *only;
}

}  // namespace

const Form* find_form(std::string_view name) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  const auto found = t.forms.find(name);
  if (found == t.forms.end()) return nullptr;
  found->second.used = true;
  return &found->second.form;
}

void note_instruction(std::string_view name) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (!t.others.contains(name)) t.others.emplace(name);
}

std::string describe_forms() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  std::string text;
  for (const auto& [name, entry] : t.forms) text += (entry.used ? "*" : "") + name + "\n";
  for (const std::string& name : t.others) text += "*" + name + "\n";
  return text;
}

}  // namespace ptxsim
