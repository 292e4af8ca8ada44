#include "base/files/system_files.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace composer {
namespace {

/// Names of system files and folders, in lower case.
constexpr std::string_view kSystemNames[] = {
    // macOS
    ".appledouble", ".apdisk", ".ds_store", ".fseventsd", ".spotlight-v100", ".temporaryitems",
    ".trashes", "__macosx", "icon\r", "network trash folder", "temporary items",
    "thevolumesettingsfolder",
    // Windows
    "$recycle.bin", "desktop.ini", "ehthumbs.db", "ehthumbs_vista.db", "system volume information",
    "thumbs.db",
    // Synology, QNAP and other storage boxes
    "#recycle", "#snapshot", ".@__thumb", ".@upload_cache", ".snapshot", ".snapshots", ".zfs",
    "@__thumb", "@eadir", "@recently-snapshot", "@recycle", "@sharebin", "@sharesnap", "@tmp",
    // Linux, and programs that keep copies of images
    ".directory", ".ipynb_checkpoints", ".picasaoriginals", ".thumbnails", ".trash", "lost+found"};

}  // namespace

bool is_system_file(std::string_view name) {
  return name.starts_with("._") || name.starts_with(".Trash-") ||
         std::ranges::find(kSystemNames, lower_case(std::string(name))) != std::end(kSystemNames);
}

bool is_in_system_folder(std::string_view path) {
  return std::ranges::any_of(separated(path, '/'), is_system_file);
}

}  // namespace composer
