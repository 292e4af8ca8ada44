#include "base/remote/http.h"

#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/interrupt.h"
#include "base/process/signals.h"
#include "base/remote/leaving.h"
#include "base/remote/remote_options.h"
#include "base/remote/remote_path.h"
#include "base/save_progress.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr size_t kMostBody = 16 << 20;  ///< bytes of an answer that is read as text
constexpr size_t kMostIdle = 256;
constexpr long kIdleSeconds = 30;  ///< servers close connections that are idle for longer
constexpr int kWakeMilliseconds = 100;
constexpr long kSlowestBytes = 1024;  ///< bytes per second; less is silence
constexpr long kMostRedirects = 10;
constexpr const char* kUnwanted = "nobody waits for it any more";

/// The file of trusted certificates, by the variables of AWS, curl and OpenSSL; empty without one.
std::string trusted_certificates() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (auto value = environment_value(name); !value.empty()) return value;
  return "";
}

/// The number of exchanges by the limit of open files, which is raised as far as the system allows.
size_t exchanges_that_fit() {
  constexpr rlim_t kWanted = 4096, kOthers = 512, kOfOne = 4, kLeast = 4;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  if (const rlim_t raised = std::min(kWanted, limit.rlim_max); limit.rlim_cur < raised) {
    limit.rlim_cur = raised;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  const rlim_t left = limit.rlim_cur - std::min(limit.rlim_cur / 2, kOthers);
  return std::max(std::min(left, kWanted) / kOfOne, kLeast);
}

struct Names {
  CURLSH* share = curl_share_init();
  std::array<std::mutex, CURL_LOCK_DATA_LAST> mutexes;

  Names() {
    curl_share_setopt(share, CURLSHOPT_LOCKFUNC, lock);
    curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, unlock);
    curl_share_setopt(share, CURLSHOPT_USERDATA, this);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  }
  ~Names() { curl_share_cleanup(share); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  static void lock(CURL*, curl_lock_data what, curl_lock_access, void* self) {
    static_cast<Names*>(self)->mutexes[what].lock();
  }
  static void unlock(CURL*, curl_lock_data what, void* self) {
    static_cast<Names*>(self)->mutexes[what].unlock();
  }
};

HttpFailure::Kind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return HttpFailure::Kind::unknown_host;
    case CURLE_COULDNT_CONNECT:
      return HttpFailure::Kind::no_connection;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFailure::Kind::not_trusted;
    default:
      return HttpFailure::Kind::other;
  }
}

/// A request on one connection.
class Transfer {
 public:
  Transfer() : easy_(curl_easy_init()) {
    if (easy_ == nullptr) throw RunError("libcurl cannot make a handle: no memory?");
  }
  ~Transfer() {
    curl_easy_cleanup(easy_);
    curl_slist_free_all(list_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* easy() const { return easy_; }

  void prepare(const HttpRequest& request, std::span<uint8_t> into, CURLSH* share, bool fresh) {
    reply_ = {};
    into_ = into;
    body_ = request.body;
    sent_ = 0;
    too_long_ = false;
    other_than_asked_ = false;
    moved_ = 0;
    last_moved_ = steady_seconds();
    error_[0] = '\0';
    curl_easy_reset(easy_);
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_SHARE, share);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_USERAGENT, "composer");
    set(CURLOPT_BUFFERSIZE, 512L << 10);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_MAXAGE_CONN, kIdleSeconds);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_seconds * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowestBytes);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.quiet_seconds)));
    if (request.total_seconds > 0)
      set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_seconds * 1000));
    if (fresh) {
      set(CURLOPT_FRESH_CONNECT, 1L);
      set(CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    }
    if (!request.through_proxy) set(CURLOPT_PROXY, "");
    const bool plain = request.url.starts_with("http://");
    set(CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
    if (request.follow_redirects) {
      set(CURLOPT_FOLLOWLOCATION, 1L);
      set(CURLOPT_MAXREDIRS, kMostRedirects);
      set(CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
    }
    if (const std::string file = trusted_certificates(); !file.empty())
      set(CURLOPT_CAINFO, file.c_str());
    if (!request.userinfo.empty()) {
      const size_t colon = std::min(request.userinfo.find(':'), request.userinfo.size());
      set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
      set(CURLOPT_USERNAME, percent_decoded(request.userinfo.substr(0, colon)).c_str());
      if (colon < request.userinfo.size())
        set(CURLOPT_PASSWORD, percent_decoded(request.userinfo.substr(colon + 1)).c_str());
    }
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method == "HEAD") set(CURLOPT_NOBODY, 1L);
    if (request.method == "PUT" || request.method == "POST") {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_.size()));
      set(CURLOPT_READFUNCTION, read_body);
      set(CURLOPT_READDATA, this);
      set(CURLOPT_SEEKFUNCTION, seek_body);
      set(CURLOPT_SEEKDATA, this);
    }
    set(CURLOPT_WRITEFUNCTION, write_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERFUNCTION, read_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, note_progress);
    set(CURLOPT_XFERINFODATA, this);
    curl_slist_free_all(list_);
    list_ = nullptr;
    add_header("Expect:");
    for (const auto& [name, value] : request.headers)
      add_header(value.empty() ? name + ";" : name + ": " + value);
    set(CURLOPT_HTTPHEADER, list_);
  }

  /// Takes the result of the transfer; failure() has its problem.
  void end(CURLcode code) {
    failure_.reset();
    reply_.status = status();
    if (other_than_asked_ && code == CURLE_WRITE_ERROR) return;
    if (too_long_) {
      failure_.emplace(HttpFailure::Kind::other, "the answer is longer than it may be");
    } else if (code != CURLE_OK) {
      std::string what = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
      if (kind_of(code) == HttpFailure::Kind::not_trusted && !trusted_certificates().empty())
        what += " (trusted: those in " + trusted_certificates() + ")";
      failure_.emplace(kind_of(code), what);
    } else if (to_into() && (reply_.status == 206 || whole_fits()) &&
               reply_.received != into_.size()) {
      failure_.emplace(HttpFailure::Kind::other, "the body has " + std::to_string(reply_.received) +
                                                     " bytes instead of " +
                                                     std::to_string(into_.size()));
    }
  }
  const std::optional<HttpFailure>& failure() const { return failure_; }
  HttpReply& reply() { return reply_; }

  double quiet_seconds() const { return steady_seconds() - last_moved_; }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    if (const CURLcode code = curl_easy_setopt(easy_, option, value); code != CURLE_OK)
      throw RunError(std::string("libcurl refuses an option: ") + curl_easy_strerror(code));
  }

  int status() const {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return static_cast<int>(status);
  }

  void add_header(const std::string& line) {
    curl_slist* const longer = curl_slist_append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }

  /// Whether the body goes to `into`.
  bool to_into() const { return !into_.empty() && (status() == 206 || status() == 200); }

  /// Whether the answer's length is that of `into`.
  bool whole_fits() const {
    curl_off_t length = -1;
    curl_easy_getinfo(easy_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length == static_cast<curl_off_t>(into_.size());
  }

  static size_t write_body(char* data, size_t, size_t size, void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    const bool to_into = self.to_into();
    self.other_than_asked_ = to_into && self.status() == 200 && !self.whole_fits();
    if (self.other_than_asked_) return 0;
    HttpReply& reply = self.reply_;
    self.too_long_ =
        size > (to_into ? self.into_.size() - reply.received : kMostBody - reply.body.size());
    if (self.too_long_) return 0;
    if (to_into) {
      std::memcpy(self.into_.data() + reply.received, data, size);
      reply.received += size;
    } else {
      reply.body.append(data, size);
    }
    return size;
  }

  static size_t read_header(char* data, size_t, size_t size, void* self_pointer) {
    auto& reply = static_cast<Transfer*>(self_pointer)->reply_;
    const std::string_view line(data, size);
    if (line.starts_with("HTTP/")) {
      // Another answer begins: after a redirect, or after "100 Continue".
      reply.headers.clear();
      reply.body.clear();
    } else if (const size_t colon = line.find(':'); colon != line.npos) {
      reply.headers[lower_case(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
    }
    return size;
  }

  static size_t read_body(char* buffer, size_t, size_t room, void* self_pointer) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    const size_t size = std::min(room, self.body_.size() - self.sent_);
    if (size > 0) std::memcpy(buffer, self.body_.data() + self.sent_, size);
    self.sent_ += size;
    saved_bytes += static_cast<int64_t>(size);
    return size;
  }

  static int seek_body(void* self_pointer, curl_off_t offset, int origin) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    if (origin != SEEK_SET || offset < 0 || static_cast<size_t>(offset) > self.body_.size())
      return CURL_SEEKFUNC_FAIL;
    self.sent_ = static_cast<size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  static int note_progress(void* self_pointer, curl_off_t, curl_off_t received, curl_off_t,
                           curl_off_t sent) {
    auto& self = *static_cast<Transfer*>(self_pointer);
    if (received + sent != self.moved_) {
      self.moved_ = received + sent;
      self.last_moved_ = steady_seconds();
    }
    return 0;
  }

  CURL* easy_;
  curl_slist* list_ = nullptr;
  HttpReply reply_;
  std::span<uint8_t> into_;
  std::span<const uint8_t> body_;
  size_t sent_ = 0;
  bool too_long_ = false, other_than_asked_ = false;
  curl_off_t moved_ = 0;
  double last_moved_ = 0;  ///< steady_seconds()
  std::optional<HttpFailure> failure_;
  char error_[CURL_ERROR_SIZE] = "";
};

}  // namespace

const std::string& HttpReply::header(const std::string& name) const {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

/// The connections of one exchange at a time, kept for the next exchange.
class HttpClient::Channel {
 public:
  explicit Channel(std::shared_ptr<void> names)
      : names_(std::move(names)), multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw RunError("libcurl cannot make a handle: no memory?");
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 2L);
  }
  ~Channel() {
    stop(first_);
    stop(second_);
    curl_multi_cleanup(multi_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void start_first(const HttpRequest& request) {
    start(first_, request, request.into, request.fresh_connection);
  }
  /// Sends the request again; the answer's body goes to memory of its own.
  void start_second(const HttpRequest& request) {
    other_.resize(request.into.size());
    start(second_, request, other_, true);
  }
  /// The second answer, its bytes copied to request.into.
  HttpReply take_second(const HttpRequest& request) {
    stop(first_);
    if (second_.transfer.reply().received > 0)
      std::copy(other_.begin(), other_.end(), request.into.begin());
    return std::move(second_.transfer.reply());
  }

  struct Half {
    Transfer transfer;
    bool running = false;
    bool sent = false;
  };
  Half& first() { return first_; }
  Half& second() { return second_; }

  /// Transfers bytes for up to this many milliseconds.
  void work(int milliseconds) {
    int running = 0;
    check(curl_multi_perform(multi_, &running));
    if (!take_ended()) {
      check(curl_multi_poll(multi_, nullptr, 0, milliseconds, nullptr));
      check(curl_multi_perform(multi_, &running));
      take_ended();
    }
  }

  void finish() {
    stop(first_);
    stop(second_);
    first_.sent = second_.sent = false;
    other_ = {};
  }

 private:
  static void check(CURLMcode code) {
    if (code != CURLM_OK)
      throw RunError(std::string("libcurl cannot go on: ") + curl_multi_strerror(code));
  }

  void start(Half& half, const HttpRequest& request, std::span<uint8_t> into, bool fresh) {
    half.transfer.prepare(request, into, static_cast<Names*>(names_.get())->share, fresh);
    check(curl_multi_add_handle(multi_, half.transfer.easy()));
    half.running = half.sent = true;
  }

  void stop(Half& half) {
    if (half.running) curl_multi_remove_handle(multi_, half.transfer.easy());
    half.running = false;
  }

  bool take_ended() {
    bool any = false;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Half& half = message->easy_handle == first_.transfer.easy() ? first_ : second_;
      const CURLcode code = message->data.result;
      half.transfer.end(code);
      stop(half);
      any = true;
    }
    return any;
  }

  std::shared_ptr<void> names_;
  CURLM* multi_;
  Half first_, second_;
  std::vector<uint8_t> other_;
};

/// One of the most_ exchanges that may run at a time; the constructor waits for it.
class HttpClient::Slot {
 public:
  explicit Slot(HttpClient& client) : client_(client) {
    constexpr auto kSlice = std::chrono::milliseconds(kWakeMilliseconds);
    std::unique_lock lock(client_.mutex_);
    while (!client_.left_.wait_for(lock, kSlice, [&] { return client_.out_ < client_.most_; }))
      if (LeaveWhen::asked()) throw HttpFailure(HttpFailure::Kind::interrupted, kUnwanted);
    ++client_.out_;
  }
  ~Slot() {
    {
      const std::lock_guard lock(client_.mutex_);
      --client_.out_;
    }
    client_.left_.notify_one();
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  HttpClient& client_;
};

HttpClient::HttpClient() : most_(exchanges_that_fit()) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK)
    throw RunError(std::string("libcurl does not start: ") + curl_easy_strerror(started));
  names_ = std::make_shared<Names>();
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Channel> HttpClient::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto channel = std::move(idle_.back());
      idle_.pop_back();
      return channel;
    }
  }
  return std::make_unique<Channel>(names_);
}

void HttpClient::give(std::unique_ptr<Channel> channel) {
  channel->finish();
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(channel));
}

HttpReply HttpClient::exchange(const HttpRequest& request, std::optional<double> hedge_after,
                               const std::function<bool()>& may_hedge) {
  const NoBrokenPipe guard;  // libcurl's TLS writes may raise it
  const Slot slot(*this);
  auto channel = take();
  auto& first = channel->first();
  auto& second = channel->second();
  const auto good = [](Channel::Half& half) {
    return half.sent && !half.running && !half.transfer.failure() &&
           half.transfer.reply().status < 500;
  };
  const double begin = steady_seconds();
  channel->start_first(request);
  while (first.running || second.running) {
    if (good(first) || good(second)) break;
    int wait = kWakeMilliseconds;
    if (hedge_after && !second.sent) {
      const double left = *hedge_after - (steady_seconds() - begin);
      if (left <= 0 && may_hedge && !may_hedge()) {
        hedge_after.reset();
      } else if (left <= 0) {
        channel->start_second(request);
      } else {
        wait = std::clamp(static_cast<int>(left * 1000) + 1, 1, wait);
      }
    }
    channel->work(wait);
    if (LeaveWhen::asked()) throw HttpFailure(HttpFailure::Kind::interrupted, kUnwanted);
    if (received_signal() != 0) {
      const double most = request.quiet_seconds_after_signal;
      const bool quiet = (!first.running || first.transfer.quiet_seconds() > most) &&
                         (!second.running || second.transfer.quiet_seconds() > most);
      if (quiet && (first.running || second.running))
        throw HttpFailure(HttpFailure::Kind::interrupted, "interrupted while nothing came");
    }
  }
  HttpReply reply;
  if (good(second) && !good(first)) {
    reply = channel->take_second(request);
  } else {
    if (first.transfer.failure()) throw HttpFailure(*first.transfer.failure());
    reply = std::move(first.transfer.reply());
  }
  // A server with such an answer may answer better on another connection.
  if (reply.status < 500 && reply.status != 429) give(std::move(channel));
  return reply;
}

HttpClient& http_client() {
  // Never destroyed: threads may still wait for answers when the process ends.
  static HttpClient& client = *new HttpClient;
  return client;
}

}  // namespace composer
