// Made by `svc types`. Do not edit: it is written again when the schema changes.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

export type Database = {
  public: {
    Tables: {
      staff: {
        Row: {
          user_id: string;
        };
        Insert: {
          user_id: string;
        };
        Update: {
          user_id?: string;
        };
        Relationships: [];
      };
      products: {
        Row: {
          id: number;
          name: string;
          description: string;
          price: number;
          stock: number;
          picture: string | null;
          is_offered: boolean;
          search: string | null;
        };
        Insert: {
          id?: never;
          name: string;
          description?: string;
          price: number;
          stock?: number;
          picture?: string | null;
          is_offered?: boolean;
          search?: never;
        };
        Update: {
          id?: never;
          name?: string;
          description?: string;
          price?: number;
          stock?: number;
          picture?: string | null;
          is_offered?: boolean;
          search?: never;
        };
        Relationships: [];
      };
      basket_items: {
        Row: {
          user_id: string;
          product_id: number;
          amount: number;
        };
        Insert: {
          user_id?: string;
          product_id: number;
          amount?: number;
        };
        Update: {
          user_id?: string;
          product_id?: number;
          amount?: number;
        };
        Relationships: [
          {
            foreignKeyName: "basket_items_product_id_fkey";
            columns: ["product_id"];
            isOneToOne: false;
            referencedRelation: "products";
            referencedColumns: ["id"];
          },
        ];
      };
      orders: {
        Row: {
          id: number;
          user_id: string;
          state: "placed" | "sent";
          total: number;
          placed_at: string;
        };
        Insert: {
          id?: never;
          user_id: string;
          state?: "placed" | "sent";
          total: number;
          placed_at?: string;
        };
        Update: {
          id?: never;
          user_id?: string;
          state?: "placed" | "sent";
          total?: number;
          placed_at?: string;
        };
        Relationships: [];
      };
      order_items: {
        Row: {
          order_id: number;
          product_id: number;
          name: string;
          price: number;
          amount: number;
        };
        Insert: {
          order_id: number;
          product_id: number;
          name: string;
          price: number;
          amount: number;
        };
        Update: {
          order_id?: number;
          product_id?: number;
          name?: string;
          price?: number;
          amount?: number;
        };
        Relationships: [
          {
            foreignKeyName: "order_items_order_id_fkey";
            columns: ["order_id"];
            isOneToOne: false;
            referencedRelation: "orders";
            referencedColumns: ["id"];
          },
          {
            foreignKeyName: "order_items_product_id_fkey";
            columns: ["product_id"];
            isOneToOne: false;
            referencedRelation: "products";
            referencedColumns: ["id"];
          },
        ];
      };
    };
    Views: { [_ in never]: never };
    Functions: {
      is_staff: {
        Args: never;
        Returns: boolean;
      };
      place_order: {
        Args: never;
        Returns: number;
      };
    };
    Enums: { [_ in never]: never };
    CompositeTypes: { [_ in never]: never };
  };
};

type PublicSchema = Database['public'];

export type Tables<Name extends keyof (PublicSchema['Tables'] & PublicSchema['Views'])> = (PublicSchema['Tables'] &
  PublicSchema['Views'])[Name]['Row'];
export type TablesInsert<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Insert'];
export type TablesUpdate<Name extends keyof PublicSchema['Tables']> = PublicSchema['Tables'][Name]['Update'];
export type Enums<Name extends keyof PublicSchema['Enums']> = PublicSchema['Enums'][Name];
