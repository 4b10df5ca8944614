// The user's basket. It is an ordinary table, so other devices of the user show it too.
import { useEffect, useState, type JSX } from 'react';
import type { User } from '@supabase/supabase-js';
import { money, supabase, type BasketItem } from './client.ts';

type BasketProps = { readonly user: User; readonly changes: number; readonly onBasket: () => void };

export function Basket({ user, changes, onBasket }: BasketProps): JSX.Element {
  const [items, setItems] = useState<readonly BasketItem[]>([]);
  const [message, setMessage] = useState<string>();
  const [problem, setProblem] = useState<string>();

  useEffect(() => {
    let isOld = false;
    void supabase
      .from('basket_items')
      .select('*, product:products!inner(*)')
      .order('product_id')
      .then(({ data, error }) => {
        if (isOld) return;
        if (error) setProblem(error.message);
        else setItems(data);
      });
    return () => {
      isOld = true;
    };
  }, [user.id, changes]);

  const change = async ({ product_id: id }: BasketItem, amount: number): Promise<void> => {
    const mine = supabase.from('basket_items');
    const { error } = await (amount > 0
      ? mine.update({ amount }).eq('product_id', id)
      : mine.delete().eq('product_id', id));
    setProblem(error?.message);
    onBasket();
  };

  const order = async (): Promise<void> => {
    const { data, error } = await supabase.rpc('place_order');
    setProblem(error?.message);
    setMessage(error ? undefined : `Thank you. Your order has the number ${data}.`);
    onBasket();
  };

  const total = items.reduce((sum, { amount, product }) => sum + amount * product.price, 0);
  return (
    <section aria-label="Basket">
      <h2>Basket</h2>
      <ul>
        {items.map((item) => (
          <li key={item.product_id} className="line">
            <span className="name">{item.product.name}</span>
            <input
              type="number"
              min={0}
              max={99}
              value={item.amount}
              aria-label={`Amount of ${item.product.name}`}
              onChange={(event) => void change(item, event.currentTarget.valueAsNumber)}
            />
            <span>{money(item.amount * item.product.price)}</span>
          </li>
        ))}
      </ul>
      {items.length === 0 ? <p className="soft">It is empty.</p> : <p>Together {money(total)}</p>}
      {problem !== undefined && <p role="alert">{problem}</p>}
      {message !== undefined && <p role="status">{message}</p>}
      {items.length > 0 && (
        <button type="button" className="primary" disabled={user.is_anonymous} onClick={() => void order()}>
          {user.is_anonymous ? 'Make an account to order' : 'Place the order'}
        </button>
      )}
    </section>
  );
}
