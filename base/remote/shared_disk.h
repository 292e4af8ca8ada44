// Folders that several machines, or several users, share.
#pragma once

#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>

#include "base/error.h"

namespace composer {

/// Whether the path is on a network file system. Machines do not see each other's changes there in
/// time, and learn late that the disk is full.
inline bool is_shared_by_machines(const std::filesystem::path& path) {
  // NFS, SMB, CIFS, SMB2, Lustre, GPFS, BeeGFS, Ceph, 9P, FUSE, GFS2
  constexpr uint32_t kinds[] = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42,
                                0x0BD00BD0, 0x47504653, 0x19830326, 0x00C36400,
                                0x01021997, 0x65735546, 0x01161970};
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return false;
  return std::ranges::find(kinds, static_cast<uint32_t>(status.f_type)) != std::end(kinds);
}

/// UserError when the folder of remote.cache_dir belongs to another user, who could change its
/// files. Folders of root are allowed, and folders on network file systems, which may not know this
/// machine's users.
inline void refuse_folder_of_others(const std::filesystem::path& folder) {
  struct stat status {};
  if (is_shared_by_machines(folder) || ::stat(folder.c_str(), &status) != 0 || status.st_uid == 0 ||
      status.st_uid == ::geteuid())
    return;
  throw UserError("remote.cache_dir: " + folder.string() + ": belongs to another user (" +
                  std::to_string(status.st_uid) + "); name a folder of your own");
}

}  // namespace composer
