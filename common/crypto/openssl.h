// OpenSSL for a process whose threads may use it until the process is gone.
#ifndef WARPLINE_COMMON_CRYPTO_OPENSSL_H_
#define WARPLINE_COMMON_CRYPTO_OPENSSL_H_

namespace warpline {

// Sets OpenSSL up so that it is not taken down when the process exits: gRPC's threads go on using
// it then, and what is freed under them is freed twice. Only the first set-up in a process counts,
// and almost any function of OpenSSL does that by itself, so whatever uses more than its plain
// hashes calls this first. Thread-safe. Later calls cost a load.
void UseOpenSsl();

}  // namespace warpline

#endif  // WARPLINE_COMMON_CRYPTO_OPENSSL_H_
