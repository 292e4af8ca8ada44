#include "base/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace composer {
namespace {

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

uintptr_t page_of(uintptr_t address) { return address / page_bytes(); }
uintptr_t page_of(const uint8_t* address) { return page_of(reinterpret_cast<uintptr_t>(address)); }

constexpr uintptr_t kBits = 64;
using Word = std::atomic<uint64_t>;

/// madvise() of the pages that the part lies in.
int advise(std::span<const uint8_t> part, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page_bytes() * page_bytes();
  const auto end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  return ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

/// Reads the part of the file and discards the bytes; stops at the first error.
void read_through(int file, uint64_t begin, uint64_t end) {
  std::vector<uint8_t> block(size_t{256} << 10);
  while (begin < end) {
    const size_t most = std::min<uint64_t>(block.size(), end - begin);
    const ssize_t got = ::pread(file, block.data(), most, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    begin += static_cast<uint64_t>(got);
  }
}

}  // namespace

/// A mapping as the signal handler sees it. Ranges are never freed, only reused, so that the
/// handler may walk their list at any time.
struct LostPages::Range {
  std::atomic<uint32_t> version{0};  ///< odd while the other members change
  std::atomic<uintptr_t> first_page{0}, pages{0};
  std::atomic<int> file{-1};
  std::atomic<Word*> lost{nullptr};  ///< a bit for each page; takes memory only for set bits
  std::atomic<bool> any{false};
  bool in_use = false;  ///< guarded by the list's lock
  Range* next = nullptr;

  static size_t map_bytes(uintptr_t pages) { return (pages / kBits + 1) * sizeof(Word); }

  void set(uintptr_t new_first, uintptr_t new_pages, int new_file, Word* new_lost) {
    ++version;
    first_page = new_first, pages = new_pages, file = new_file, lost = new_lost;
    any = false;
    ++version;
  }

  /// Whether the range has the page. False while another thread changes the range.
  bool holds(uintptr_t page) const {
    const uint32_t before = version;
    const bool inside = page - first_page < pages;
    return inside && before % 2 == 0 && version == before;
  }

  /// Replaces the page with zeros; in a file that became shorter, all pages behind its end at once.
  /// Called by the signal handler.
  bool replace(uintptr_t page) {
    uintptr_t from = page - first_page, end = from + 1;
    struct stat status {};
    if (::fstat(file, &status) == 0) {
      const uintptr_t bytes = static_cast<uintptr_t>(status.st_size);
      const uintptr_t left = (bytes + page_bytes() - 1) / page_bytes();
      if (left <= from) from = left, end = pages;
    }
    // Before any thread can read the zeros.
    for (uintptr_t i = from; i < end; ++i) lost.load()[i / kBits] |= uint64_t{1} << i % kBits;
    any = true;
    void* const at = reinterpret_cast<void*>((first_page + from) * page_bytes());
    return ::mmap(at, (end - from) * page_bytes(), PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
  }
};

struct LostPages::Ranges {
  static inline std::mutex lock;
  static inline std::atomic<Range*> first{nullptr};
  static inline struct sigaction previous {};

  static void install() {
    page_bytes();
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigaction(SIGBUS, &action, &previous);
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const bool by_access = info->si_code > 0;  // else sent by a process
    const uintptr_t page = page_of(reinterpret_cast<uintptr_t>(info->si_addr));
    for (Range* range = first; by_access && range != nullptr; range = range->next) {
      if (!range->holds(page)) continue;
      if (!range->replace(page)) break;
      errno = error;
      return;
    }
    hand_on(signal, info, context);
    errno = error;
  }

  static void hand_on(int signal, siginfo_t* info, void* context) {
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    if (previous.sa_handler == SIG_IGN && info->si_code <= 0) return;
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
      return previous.sa_handler(signal);
    }
    ::signal(SIGBUS, SIG_DFL);
    ::raise(SIGBUS);  // takes effect when the handler returns
  }

  static Range* add(uintptr_t first_page, uintptr_t pages, int file) {
    const std::lock_guard guard(lock);
    static const bool installed = (install(), true);
    static_cast<void>(installed);
    Range* range = first;
    while (range != nullptr && range->in_use) range = range->next;
    if (range == nullptr) {
      range = new Range;
      range->next = first;
      first = range;
    }
    void* const lost = ::mmap(nullptr, Range::map_bytes(pages), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lost == MAP_FAILED) throw RunError("no memory: " + std::string(std::strerror(errno)));
    range->set(first_page, pages, file, static_cast<Word*>(lost));
    range->in_use = true;
    return range;
  }

  static void remove(Range* range) {
    const std::lock_guard guard(lock);
    Word* const lost = range->lost;
    const size_t bytes = Range::map_bytes(range->pages);
    range->set(0, 0, -1, nullptr);
    ::munmap(lost, bytes);
    range->in_use = false;
  }
};

LostPages::LostPages(std::span<const uint8_t> mapping, int file)
    : range_(Ranges::add(page_of(mapping.data()),
                         (mapping.size() + page_bytes() - 1) / page_bytes(), file)) {}

LostPages::~LostPages() { Ranges::remove(range_); }

bool LostPages::in(std::span<const uint8_t> part) const {
  std::atomic_thread_fence(std::memory_order_acquire);  // after the bytes were read
  if (!range_->any.load(std::memory_order_relaxed) || part.empty()) return false;
  const Word* const lost = range_->lost;
  const uintptr_t first = page_of(part.data()) - range_->first_page;
  const uintptr_t last = page_of(&part.back()) - range_->first_page;
  for (uintptr_t i = first; i <= last; ++i) {
    if ((lost[i / kBits] >> i % kBits & 1) != 0) return true;
  }
  return false;
}

MappedFile::Mapping::~Mapping() {
  if (data != nullptr) ::munmap(const_cast<uint8_t*>(data), size);
  if (file >= 0) ::close(file);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  mapping_.file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  map();
}

MappedFile::MappedFile(const std::filesystem::path& path, int file) : path_(path) {
  mapping_.file = ::fcntl(file, F_DUPFD_CLOEXEC, 0);
  map();
}

void MappedFile::map() {
  const auto fail = [&](const std::string& reason) {
    return UserError(path_.string() + ": " + reason);
  };
  if (mapping_.file < 0) throw fail(errno == ENOENT ? "no such file" : std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(mapping_.file, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) throw fail("not a file");
  mapping_.size = static_cast<size_t>(status.st_size);
  if (mapping_.size == 0) return;
  void* const data = ::mmap(nullptr, mapping_.size, PROT_READ, MAP_PRIVATE, mapping_.file, 0);
  if (data == MAP_FAILED) throw fail(std::strerror(errno));
  mapping_.data = static_cast<const uint8_t*>(data);
  pages_ = std::make_unique<LostPages>(bytes(), mapping_.file);
}

std::optional<uint64_t> MappedFile::shrunk_to() const {
  struct stat status {};
  if (::fstat(mapping_.file, &status) != 0) return std::nullopt;
  const auto now = static_cast<uint64_t>(status.st_size);
  return now < mapping_.size ? std::optional(now) : std::nullopt;
}

/// Whether the file may now end before this byte's end without having raised a fault: the last page
/// of a shortened file has zeros behind the file's end.
bool MappedFile::may_end_before(const uint8_t* byte) const {
  const auto offset = static_cast<size_t>(byte - mapping_.data);
  const size_t page_end = std::min((offset / page_bytes() + 1) * page_bytes(), mapping_.size);
  const volatile uint8_t* const data = mapping_.data;
  for (size_t at = offset; at < page_end; ++at)
    if (data[at] != 0) return false;
  return true;
}

void MappedFile::check(std::span<const uint8_t> part) const {
  if (part.empty()) return;
  const bool may_be_cut = may_end_before(&part.back());
  const bool is_lost = lost(part);
  if (!may_be_cut && !is_lost) return;
  const auto now = shrunk_to();
  const auto end = static_cast<uint64_t>(&part.back() - mapping_.data) + 1;
  if (!is_lost && !(now && *now < end)) return;
  throw RunError(now ? "the file was cut off while it was read: " + std::to_string(*now) + " of " +
                           std::to_string(mapping_.size) + " bytes are left"
                     : "the file can no longer be read: its disk or network failed");
}

void MappedFile::check_unread(std::span<const uint8_t> part) const {
  const volatile uint8_t* const data = part.data();
  for (size_t at = 0; at < part.size(); at += page_bytes()) static_cast<void>(data[at]);
  check(part);
}

void MappedFile::bring(std::span<const uint8_t> part) const {
#ifdef MADV_POPULATE_READ
  constexpr int populate = MADV_POPULATE_READ;
#else
  constexpr int populate = 22;
#endif
  constexpr size_t step = 128 << 10;  // systems may ignore the rest of longer advice
  if (part.empty()) return;
  for (size_t at = 0; at < part.size(); at += step)
    advise(part.subspan(at, std::min(step, part.size() - at)), MADV_WILLNEED);
  // A page that cannot be read ends the call without a signal.
  if (advise(part, populate) == 0 || errno != EINVAL) return;
  const auto begin = static_cast<uint64_t>(part.data() - mapping_.data);
  read_through(mapping_.file, begin, begin + part.size());
}

void MappedFile::forget(std::span<const uint8_t> part) const {
  if (!part.empty()) advise(part, MADV_PAGEOUT);
}

void MappedFile::check_all() const {
  try {
    check(bytes());
  } catch (const RunError& error) {
    throw RunError(path_.string() + ": " + error.what());
  }
}

}  // namespace composer
