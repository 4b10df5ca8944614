create trigger set_price before insert on order_items
for each row execute function price_item();

-- The price is the server's.
create function price_item() returns trigger language plpgsql as $$
begin
  select p.cents into new.cents from products p where p.id = new.product_id;
  return new;
end $$;

create type order_state as enum ('open', 'paid', 'sent');

create view order_totals with (security_invoker = on) as
  select order_id, sum(quantity * cents)::bigint as cents from order_items group by order_id;

create or replace function search_products(query text) returns setof products language sql stable as $$
  select * from products where words @@ websearch_to_tsquery('english', query)
  order by ts_rank(words, websearch_to_tsquery('english', query)) desc, id
$$;
comment on function search_products(text) is 'Products by the words of their name and description';
