// Paths of objects: s3://bucket/key, https://host[:port]/path.
#pragma once

#include <string>
#include <string_view>

namespace composer {

/// Whether the text is a path with a scheme ("word://..."), which no local path is.
bool is_remote(std::string_view text);

/// For messages: a local path as it is, a remote one as RemotePath::text(). Throws as RemotePath.
std::string shown_path(const std::string& path);

/// Keys of s3:// are the object's own bytes (UTF-8). Those of a web server are what stands in the
/// URL behind the host's '/', percent-encoded, the query included.
class RemotePath {
 public:
  enum class Scheme { s3, https, http };

  /// UserError where it is no path of a store, without its userinfo and query.
  explicit RemotePath(std::string_view text);

  Scheme scheme() const { return scheme_; }
  /// The bucket, or host[:port].
  const std::string& host() const { return host_; }
  const std::string& key() const { return key_; }
  /// Of a URL's user:password@, as it stands there; empty where there is none.
  const std::string& userinfo() const { return userinfo_; }

  /// Whether the key is empty or ends in '/' (before a query).
  bool is_folder() const;
  /// The last part of the key, decoded: what a file of it would be called. Empty for a folder.
  std::string name() const;
  /// The path of the object `name` (plain text, which may have '/') in this folder; a '/' is put
  /// between where there is none. A query stays at the end.
  RemotePath operator/(std::string_view name) const;
  /// The path of another key of the same place, as ObjectStore::list gives them.
  RemotePath with_key(std::string key) const;

  /// For messages, logs and records: without userinfo and query, which may be secrets.
  std::string text() const;
  /// For caches: the text and, where the query says more than who asks (signatures, tokens), a
  /// number made of it.
  std::string identity() const;

  bool operator==(const RemotePath&) const = default;

 private:
  RemotePath() = default;

  Scheme scheme_ = Scheme::s3;
  std::string host_, key_, userinfo_;
};

/// RFC 3986's unreserved characters stay, and those of `also`; others become %XX.
std::string percent_encoded(std::string_view text, std::string_view also = "");
/// "%XX" becomes its byte; what is none stays.
std::string percent_decoded(std::string_view text);

/// The path with its userinfo and query, which may be secrets: RemotePath(address_of(path)) is the
/// same path. For opening it, never for a message or a file.
std::string address_of(const RemotePath& path);

/// The address of `name` as a user writes it behind that of a folder: "%20" in it stays, and a
/// query of the folder goes to the end unless the name has one of its own.
std::string address_below(const std::string& folder, const std::string& name);

/// What is wrong with it, for people, before anything is made; empty if nothing. Paths of stores
/// and web servers, ~ and $NAME that no shell has replaced, would else be names of folders here.
std::string local_folder_problem(const std::string& folder);

}  // namespace composer
