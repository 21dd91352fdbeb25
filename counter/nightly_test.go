package counter

import (
	"testing"
	"time"
)

// The next night, whatever the clocks of the zone do.
func TestNightly(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here: ", err)
	}
	cases := map[string]struct {
		reason    string
		at        Nightly
		now, want string
	}{
		"Today":       {"Not yet this morning.", Nightly{3, 30, time.UTC}, "2026-12-01T03:29:59Z", "2026-12-01T03:30:00Z"},
		"Tomorrow":    {"Right now is over: it would run twice.", Nightly{3, 30, time.UTC}, "2026-12-01T03:30:00Z", "2026-12-02T03:30:00Z"},
		"Zone":        {"By the clock of the zone.", Nightly{3, 30, berlin}, "2026-12-01T02:31:00Z", "2026-12-02T02:30:00Z"},
		"EndOfYear":   {"Over the end of a year.", Nightly{0, 5, time.UTC}, "2026-12-31T12:00:00Z", "2027-01-01T00:05:00Z"},
		"ClocksSkip":  {"02:30 is not there on this day.", Nightly{2, 30, berlin}, "2027-03-28T00:00:00Z", "2027-03-28T01:30:00Z"},
		"ClocksAgain": {"02:30 comes twice: once is enough.", Nightly{2, 30, berlin}, "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, _ := time.Parse(time.RFC3339, tc.now)
			if got := tc.at.After(now).UTC().Format(time.RFC3339); got != tc.want {
				t.Errorf("%s\nafter %s comes %s, want %s", tc.reason, tc.now, got, tc.want)
			}
		})
	}
}
