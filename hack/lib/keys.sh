# Keys and certificates of one cluster, below $keys. To be sourced.

keys=/run/lanemate/keys

# A certificate straight from the authority, so that no request file is needed; the system's openssl.cnf adds nothing.
openssl_request() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
    -config <(printf '[req]\ndistinguished_name = name\n[name]\n') "$@" 2>"$keys/openssl.log" ||
    { cat "$keys/openssl.log" >&2; fail "openssl made no key: expected version 3.0 or later, this is $(openssl version)"; }
}

make_authority() {
  (umask 077 && mkdir -p "$keys")
  openssl_request -keyout "$keys/ca.key" -out "$keys/ca.crt" -subj /CN=lanemate-test \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign
  # Serves as private and as public key of service accounts.
  openssl ecparam -genkey -noout -name prime256v1 -out "$keys/service-accounts.key"
}

# certificate NAME SUBJECT [ALTERNATIVE-NAMES]
certificate() {
  openssl_request -CA "$keys/ca.crt" -CAkey "$keys/ca.key" -keyout "$keys/$1.key" -out "$keys/$1.crt" -subj "$2" \
    -addext extendedKeyUsage=clientAuth,serverAuth ${3:+-addext "subjectAltName=$3"}
}

# kubeconfig NAME SUBJECT: a certificate, and /run/lanemate/NAME.kubeconfig
kubeconfig() {
  certificate "$1" "$2"
  cat >"/run/lanemate/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: $1}}]
clusters: [{name: test, cluster: {server: "https://$node_address:443", certificate-authority: $keys/ca.crt}}]
users: [{name: $1, user: {client-certificate: $keys/$1.crt, client-key: $keys/$1.key}}]
YAML
}
