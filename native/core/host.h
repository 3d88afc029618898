// What the machine, the affinity mask and the cgroup (v1 and v2) allow this process.
#pragma once

#include <cstdint>

namespace needle {

int available_cpus();        // at least 1
int64_t available_memory();  // bytes: physical memory, or a lower limit of the cgroup or process

}  // namespace needle
