// Uses the service like an app in Go, through the published client. Needs SVC_URL, SVC_KEY, SVC_SECRET.
package suite

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/supabase-community/gotrue-go/types"
	"github.com/supabase-community/postgrest-go"
	storage "github.com/supabase-community/storage-go"
	"github.com/supabase-community/supabase-go"
)

const password = "correct horse battery"

type todo struct {
	ID     int64          `json:"id,omitempty"`
	ListID int64          `json:"list_id"`
	Title  string         `json:"title"`
	Rank   int            `json:"rank"`
	Tags   []string       `json:"tags"`
	Meta   map[string]any `json:"meta"`
	Done   bool           `json:"done"`
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal[T comparable](t *testing.T, actual, expected T) {
	t.Helper()
	if actual != expected {
		t.Fatalf("%v instead of %v", actual, expected)
	}
}

func client(t *testing.T, key string) *supabase.Client {
	return must[*supabase.Client](t)(supabase.NewClient(os.Getenv("SVC_URL"), os.Getenv(key), nil))
}

func address() string {
	name := make([]byte, 16)
	_, _ = rand.Read(name)
	return hex.EncodeToString(name) + "@example.com"
}

func signedUp(t *testing.T) (*supabase.Client, string) {
	email := address()
	one := client(t, "SVC_KEY")
	made := must[*types.SignupResponse](t)(one.Auth.Signup(types.SignupRequest{
		Email: email, Password: password, Data: map[string]any{"name": "Ann"},
	}))
	one.UpdateAuthSession(made.Session)
	return one, email
}

func newList(t *testing.T, one *supabase.Client) int64 {
	var made []struct{ ID int64 }
	_, err := one.From("lists").Insert(map[string]string{"title": "of the house"}, false, "", "representation", "").ExecuteTo(&made)
	if err != nil {
		t.Fatal(err)
	}
	return made[0].ID
}

func add(t *testing.T, one *supabase.Client, rows ...todo) []todo {
	var made []todo
	if _, err := one.From("todos").Insert(rows, false, "", "representation", "").ExecuteTo(&made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestSignUpOutAndIn(t *testing.T) {
	one, email := signedUp(t)
	user := must[*types.UserResponse](t)(one.Auth.GetUser())
	equal(t, user.Email, email)
	equal(t, user.UserMetadata["name"], any("Ann"))
	if err := one.Auth.Logout(); err != nil {
		t.Fatal(err)
	}
	again := must[types.Session](t)(client(t, "SVC_KEY").SignInWithEmailPassword(email, password))
	equal(t, again.User.Email, email)
}

func TestWrongPasswordAndTakenAddress(t *testing.T) {
	one, email := signedUp(t)
	_, err := one.SignInWithEmailPassword(email, "something else")
	if err == nil || !strings.Contains(err.Error(), "invalid_credentials") {
		t.Fatal(err)
	}
	_, err = one.Auth.Signup(types.SignupRequest{Email: email, Password: password})
	if err == nil || !strings.Contains(err.Error(), "user_already_exists") {
		t.Fatal(err)
	}
}

func TestRefreshAndUpdate(t *testing.T) {
	one, email := signedUp(t)
	before := must[types.Session](t)(one.SignInWithEmailPassword(email, password))
	after := must[types.Session](t)(one.RefreshToken(before.RefreshToken))
	if after.RefreshToken == before.RefreshToken {
		t.Fatal("the same refresh token")
	}
	changed := must[*types.UpdateUserResponse](t)(one.Auth.UpdateUser(types.UpdateUserRequest{
		Data: map[string]any{"name": "Bea"},
	}))
	equal(t, changed.UserMetadata["name"], any("Bea"))
}

func TestAdmin(t *testing.T) {
	admin := client(t, "SVC_SECRET").Auth.WithToken(os.Getenv("SVC_SECRET"))
	email, secret := address(), password
	made := must[*types.AdminCreateUserResponse](t)(admin.AdminCreateUser(types.AdminCreateUserRequest{
		Email: email, Password: &secret, EmailConfirm: true,
	}))
	found := must[*types.AdminGetUserResponse](t)(admin.AdminGetUser(types.AdminGetUserRequest{UserID: made.ID}))
	equal(t, found.Email, email)
	if err := admin.AdminDeleteUser(types.AdminDeleteUserRequest{UserID: made.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AdminGetUser(types.AdminGetUserRequest{UserID: made.ID}); err == nil {
		t.Fatal("still there")
	}
}

func TestRowsComeAndGo(t *testing.T) {
	one, _ := signedUp(t)
	list := newList(t, one)
	made := add(t, one,
		todo{ListID: list, Title: "a", Tags: []string{"x", "y"}, Meta: map[string]any{"k": "ü"}},
		todo{ListID: list, Title: "b", Tags: []string{}, Meta: map[string]any{}})
	equal(t, strings.Join(made[0].Tags, " "), "x y")
	equal(t, made[0].Meta["k"], any("ü"))
	var changed []todo
	_, err := one.From("todos").Update(map[string]bool{"done": true}, "", "").Eq("title", "a").ExecuteTo(&changed)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(changed) == 1 && changed[0].Done, true)
	made[1].Title = "c"
	var kept []todo
	if _, err := one.From("todos").Upsert(made[1], "id", "", "").ExecuteTo(&kept); err != nil {
		t.Fatal(err)
	}
	equal(t, kept[0].Title, "c")
	_, count, err := one.From("todos").Delete("", "exact").Eq("title", "a").Execute()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, count, 1)
}

func TestFilters(t *testing.T) {
	one, _ := signedUp(t)
	list := newList(t, one)
	for n := range 6 {
		add(t, one, todo{ListID: list, Title: "t" + string(rune('0'+n)) + ", (x)", Rank: n,
			Tags: []string{[]string{"even", "odd"}[n%2]}, Meta: map[string]any{"n": n}})
	}
	ranks := func(narrow func(*postgrest.FilterBuilder) *postgrest.FilterBuilder) []int {
		t.Helper()
		var found []todo
		query := one.From("todos").Select("rank", "", false).Order("rank", &postgrest.OrderOpts{Ascending: true})
		if _, err := narrow(query).ExecuteTo(&found); err != nil {
			t.Fatal(err)
		}
		numbers := []int{}
		for _, one := range found {
			numbers = append(numbers, one.Rank)
		}
		return numbers
	}
	type query = *postgrest.FilterBuilder
	for name, is := range map[string]struct {
		narrow   func(query) query
		expected []int
	}{
		"gt":        {func(q query) query { return q.Gt("rank", "3") }, []int{4, 5}},
		"in":        {func(q query) query { return q.In("title", []string{"t1, (x)", "t4, (x)"}) }, []int{1, 4}},
		"like":      {func(q query) query { return q.Like("title", "t2%") }, []int{2}},
		"ilike":     {func(q query) query { return q.Ilike("title", "T3%") }, []int{3}},
		"contains":  {func(q query) query { return q.Contains("tags", []string{"odd"}) }, []int{1, 3, 5}},
		"or":        {func(q query) query { return q.Or("rank.lt.1,rank.gt.4", "") }, []int{0, 5}},
		"not":       {func(q query) query { return q.Not("rank", "lt", "5") }, []int{5}},
		"is":        {func(q query) query { return q.Is("due", "null").Limit(1, "") }, []int{0}},
		"range":     {func(q query) query { return q.Range(1, 2, "") }, []int{1, 2}},
		"json path": {func(q query) query { return q.Filter("meta->>n", "eq", "3") }, []int{3}},
	} {
		if found := ranks(is.narrow); !slices.Equal(found, is.expected) {
			t.Fatalf("%s: %v instead of %v", name, found, is.expected)
		}
	}
}

func TestCountsEmbedsAndSingleRows(t *testing.T) {
	one, _ := signedUp(t)
	list := newList(t, one)
	add(t, one, todo{ListID: list, Title: "one", Tags: []string{}}, todo{ListID: list, Title: "two", Tags: []string{}})
	_, count, err := one.From("todos").Select("id", "exact", true).Execute()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, count, 2)
	var row struct {
		Title string
		Lists struct{ Title string }
	}
	if _, err := one.From("todos").Select("title, lists(title)", "", false).Eq("title", "one").Single().ExecuteTo(&row); err != nil {
		t.Fatal(err)
	}
	equal(t, row.Title+" "+row.Lists.Title, "one of the house")
	_, err = one.From("todos").Select("title", "", false).Single().ExecuteTo(&row)
	if err == nil || !strings.Contains(err.Error(), "PGRST116") {
		t.Fatal(err)
	}
}

func TestOthersSeeNothing(t *testing.T) {
	one, _ := signedUp(t)
	add(t, one, todo{ListID: newList(t, one), Title: "secret", Tags: []string{}})
	other, _ := signedUp(t)
	var seen []todo
	if _, err := other.From("todos").Select("*", "", false).ExecuteTo(&seen); err != nil {
		t.Fatal(err)
	}
	equal(t, len(seen), 0)
}

func TestFunctionsOfTheDatabase(t *testing.T) {
	one, _ := signedUp(t)
	equal(t, one.Rpc("add", "", map[string]int{"a": 2, "b": 3}), "5")
}

func TestFiles(t *testing.T) {
	one, _ := signedUp(t)
	name := address() + "/a.txt"
	must[storage.FileUploadResponse](t)(one.Storage.UploadFile("files", name, strings.NewReader("hello")))
	equal(t, string(must[[]byte](t)(one.Storage.DownloadFile("files", name))), "hello")
	folder, _, _ := strings.Cut(name, "/")
	listed := must[[]storage.FileObject](t)(one.Storage.ListFiles("files", folder, storage.FileSearchOptions{}))
	equal(t, len(listed) == 1 && listed[0].Name == "a.txt", true)
	link := must[storage.SignedUrlResponse](t)(one.Storage.CreateSignedUrl("files", name, 60))
	equal(t, strings.Contains(link.SignedURL, "token="), true)
	must[[]storage.FileUploadResponse](t)(one.Storage.RemoveFile("files", []string{name}))
	equal(t, len(must[[]storage.FileObject](t)(one.Storage.ListFiles("files", folder, storage.FileSearchOptions{}))), 0)
}
