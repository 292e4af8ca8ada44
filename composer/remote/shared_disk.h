// File systems that several machines may share.
#pragma once

#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

namespace composer {

/// Such machines do not see each other's changes in time, and learn late that the disk is full.
inline bool is_shared_by_machines(const std::filesystem::path& path) {
  constexpr std::array<uint32_t, 11> kinds{0x6969 /* NFS */,
                                           0x517B /* SMB */,
                                           0xFF534D42 /* CIFS */,
                                           0xFE534D42 /* SMB2 */,
                                           0x0BD00BD0 /* Lustre */,
                                           0x47504653 /* GPFS */,
                                           0x19830326 /* BeeGFS */,
                                           0x00C36400 /* Ceph */,
                                           0x01021997 /* 9P */,
                                           0x65735546 /* FUSE */,
                                           0x01161970 /* GFS2 */};
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return std::ranges::find(kinds, static_cast<uint32_t>(status.f_type)) != kinds.end();
}

}  // namespace composer
