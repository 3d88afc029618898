#include "host.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace needle {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// The first words of a small file; none when it cannot be read.
std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; words.size() < 8 && file >> word;) words.push_back(word);
  return words;
}

double number(const std::string& word) {
  std::istringstream stream(word);  // not strtod: its locale may not use a point
  stream.imbue(std::locale::classic());
  double value;
  return stream >> value && value > 0 ? value : kUnlimited;  // "max" and -1 mean no limit
}

// Is the word in a list such as "cpu,cpuacct"? The empty word is in the empty list.
bool lists(const std::string& list, const std::string& word) {
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    if (item == word) return true;
  }
  return list == word;
}

// The folders of this process's cgroup in one hierarchy, from its own up to the root. `controller`
// is empty for v2. Inside a container the listed path may not exist; the root then holds the limit.
std::vector<std::string> cgroup_folders(const std::string& mount, const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream table("/proc/self/cgroup");
  for (std::string line; std::getline(table, line);) {  // id:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (!lists(line.substr(first + 1, second - first - 1), controller)) continue;
    for (std::string path = line.substr(second + 1); path.size() > 1; path.erase(path.rfind('/'))) {
      folders.push_back(mount + path);
    }
  }
  folders.push_back(mount);
  return folders;
}

double cpu_quota() {
  double quota = kUnlimited;
  for (const std::string& folder : cgroup_folders("/sys/fs/cgroup", "")) {
    const auto words = words_of(folder + "/cpu.max");  // "<quota or max> <period>"
    if (words.size() >= 2) quota = std::min(quota, number(words[0]) / number(words[1]));
  }
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    for (const std::string& folder : cgroup_folders(mount, "cpu")) {
      const auto allowed = words_of(folder + "/cpu.cfs_quota_us");
      const auto period = words_of(folder + "/cpu.cfs_period_us");
      if (allowed.empty() || period.empty()) continue;
      quota = std::min(quota, number(allowed[0]) / number(period[0]));
    }
  }
  return quota;
}

double memory_limit() {
  double limit = kUnlimited;
  const auto apply = [&](const std::string& path) {
    const auto words = words_of(path);
    if (!words.empty()) limit = std::min(limit, number(words[0]));
  };
  for (const std::string& folder : cgroup_folders("/sys/fs/cgroup", "")) {
    apply(folder + "/memory.max");
  }
  for (const std::string& folder : cgroup_folders("/sys/fs/cgroup/memory", "memory")) {
    apply(folder + "/memory.limit_in_bytes");
  }
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit own;
    if (getrlimit(resource, &own) == 0 && own.rlim_cur != RLIM_INFINITY) {
      limit = std::min(limit, static_cast<double>(own.rlim_cur));
    }
  }
  return limit;
}

}  // namespace

int available_cpus() {
  double count = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
#ifdef __linux__
  cpu_set_t mask;  // fails on machines with more than 1024 CPUs; then all of them count
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) count = std::max(1, CPU_COUNT(&mask));
#endif
  const double quota = cpu_quota();
  return static_cast<int>(std::max(1.0, std::min(count, std::ceil(quota))));
}

int64_t available_memory() {
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return static_cast<int64_t>(std::min(physical, memory_limit()));
}

}  // namespace needle
