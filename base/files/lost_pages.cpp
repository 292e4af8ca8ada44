#include "base/files/lost_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

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

}  // namespace

/// What the signal handler knows of a mapping. Ranges are never freed, only used again, so that the
/// handler may walk their list at any time.
struct LostPages::Range {
  std::atomic<uint32_t> version{0};  // odd while the others change
  std::atomic<uintptr_t> first_page{0}, pages{0};
  std::atomic<int> file{-1};
  std::atomic<Word*> lost{nullptr};  // a bit a page; memory only where there are any
  std::atomic<bool> any{false};
  bool in_use = false;  // under the list's lock
  Range* next = nullptr;

  size_t map_bytes() const { return (pages / kBits + 1) * sizeof(Word); }

  void set(uintptr_t new_first, uintptr_t new_pages, int new_file, Word* new_lost) {
    ++version;
    first_page = new_first, pages = new_pages, file = new_file, lost = new_lost;
    any = false;
    ++version;
  }

  /// Whether the page is one of these. For a page of another range, which may change meanwhile,
  /// this is false.
  bool holds(uintptr_t page) const {
    const uint32_t before = version;
    const bool inside = page - first_page < pages;
    return inside && before % 2 == 0 && version == before;
  }

  /// Puts zeros in place of the page. Of a file that became shorter, all pages behind its end go
  /// at once. Called by the signal handler.
  bool replace(uintptr_t page) {
    uintptr_t from = page - first_page, end = from + 1;
    struct stat status {};
    if (::fstat(file, &status) == 0) {
      const uintptr_t bytes = static_cast<uintptr_t>(status.st_size);
      const uintptr_t left = (bytes + page_bytes() - 1) / page_bytes();
      if (left <= from) from = left, end = pages;
    }
    // Noted before anyone can read the zeros.
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
    const size_t bytes = (pages / kBits + 1) * sizeof(Word);
    void* const lost = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lost == MAP_FAILED) throw RunError("no memory: " + std::string(std::strerror(errno)));
    range->set(first_page, pages, file, static_cast<Word*>(lost));
    range->in_use = true;
    return range;
  }

  static void remove(Range* range) {
    const std::lock_guard guard(lock);
    Word* const lost = range->lost;
    const size_t bytes = range->map_bytes();
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

}  // namespace composer
