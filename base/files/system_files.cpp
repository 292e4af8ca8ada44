#include "base/files/system_files.h"

#include <algorithm>

namespace composer {
namespace {

/// In small letters.
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

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool is_system_file(std::string_view name) {
  const auto is = [&](std::string_view known) {
    return known.size() == name.size() && std::ranges::equal(known, name, {}, {}, small_letter);
  };
  return name.starts_with("._") || name.starts_with(".Trash-") ||
         std::ranges::any_of(kSystemNames, is);
}

bool is_in_system_folder(std::string_view path) {
  for (;;) {
    const size_t slash = path.find('/');
    if (is_system_file(path.substr(0, slash))) return true;
    if (slash == path.npos) return false;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace composer
