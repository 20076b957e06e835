# A name server on 127.0.0.1:53 that knows one IPv4 address: name-server.pl NAME ADDRESS. Prints the names it is asked for.
use strict;
use warnings;
use IO::Socket::INET;

my ($name, $address) = @ARGV;
my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 53, Proto => 'udp') or die "127.0.0.1:53: $!\n";
$| = 1;
# A question alone has at most 12 bytes of header, 255 of name and 4 of type and class; EDNS adds a few.
while (my $from = $socket->recv(my $query, 512)) {
    my ($id, $flags) = unpack 'n n', $query;
    my @labels;
    my $at = 12;
    while (my $length = ord substr $query, $at, 1) {
        push @labels, substr $query, $at + 1, $length;
        $at += 1 + $length;
    }
    my $question = substr $query, 12, $at + 5 - 12;
    my ($type) = unpack 'n', substr $question, -4;
    my $asked = join '.', @labels;
    print "$asked type $type\n";
    my $known = $asked eq $name;
    # The name of an answer points at the question; A is type 1, IN class 1. No such name is status 3.
    my $answer = $known && $type == 1 ? pack 'n n n N n a4', 0xc00c, 1, 1, 5, 4, inet_aton($address) : '';
    my $header = pack 'n6', $id, 0x8180 | ($known ? 0 : 3), 1, length $answer ? 1 : 0, 0, 0;
    $socket->send($header . $question . $answer, 0, $from);
}
